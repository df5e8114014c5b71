import "./page-shop.css";

export const show = (text) => console.log("shop", text, "EDITION");
