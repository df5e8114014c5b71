export const say = (text) => console.log(text, "EDITION");
