import "./page-contact.css";

export const show = (text) => console.log("contact", text, "EDITION");
