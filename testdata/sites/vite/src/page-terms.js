import "./page-terms.css";

export const show = (text) => console.log("terms", text, "EDITION");
