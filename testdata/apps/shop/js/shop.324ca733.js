// Every page: the number in the header, and the form that adds to the basket.
import { add, count } from "./basket.da5c62e9.js";

function show() {
  for (const place of document.querySelectorAll("[data-count]")) place.textContent = count();
}

for (const form of document.querySelectorAll("form[data-add]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add(form.dataset.add, Number(new FormData(form).get("quantity")) || 1);
    const said = form.querySelector("[role=status]");
    if (said) said.textContent = "In your basket.";
  });
}

addEventListener("basket", show);
addEventListener("storage", show);
show();
