document.title = "EDITION";
