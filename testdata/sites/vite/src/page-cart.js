import "./page-cart.css";

export const show = (text) => console.log("cart", text, "EDITION");
