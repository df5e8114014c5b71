import "./page-imprint.css";

export const show = (text) => console.log("imprint", text, "EDITION");
