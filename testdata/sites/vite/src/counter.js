onmessage = (e) => postMessage(e.data + "EDITION");
