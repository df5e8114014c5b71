import "./main.css";
import picture from "./picture.svg";
import Counter from "./counter.js?worker";

document.querySelector("main").style.backgroundImage = `url(${picture})`;
new Counter().postMessage("EDITION");
const pages = import.meta.glob("./page-*.js");
for (const page of Object.values(pages)) page().then((p) => p.show("EDITION"));
