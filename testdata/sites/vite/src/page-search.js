import "./page-search.css";

export const show = (text) => console.log("search", text, "EDITION");
