import "./page-about.css";

export const show = (text) => console.log("about", text, "EDITION");
