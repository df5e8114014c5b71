import "./page-news.css";

export const show = (text) => console.log("news", text, "EDITION");
