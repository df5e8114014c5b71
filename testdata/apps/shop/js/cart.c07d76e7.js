// The basket's page.
import { read, set } from "./basket.da5c62e9.js";
import { delivery, money, products } from "./catalogue.7dacb666.js";

const rows = document.querySelector("[data-rows]");
const template = document.querySelector("template");

function row(id, quantity) {
  const product = products.get(id);
  const part = template.content.cloneNode(true);
  const link = part.querySelector("a");
  link.textContent = product.name;
  link.href = `/product/${id}`;
  part.querySelector("img").src = `/static/images/${id}.svg`;
  part.querySelector("[data-price]").textContent = money(product.price * quantity);
  const input = part.querySelector("input");
  input.value = quantity;
  input.setAttribute("aria-label", `Number of ${product.name}`);
  input.addEventListener("change", () => set(id, Number(input.value)));
  return part;
}

function show() {
  const basket = Object.entries(read()).filter(([id]) => products.has(id));
  const total = basket.reduce((sum, [id, n]) => sum + products.get(id).price * n, 0);
  rows.replaceChildren(...basket.map(([id, n]) => row(id, n)));
  document.querySelector("[data-delivery]").textContent = delivery(total) === 0 ? "free" : money(delivery(total));
  document.querySelector("[data-total]").textContent = money(total + delivery(total));
  document.querySelector("[data-full]").hidden = basket.length === 0;
  document.querySelector("[data-empty]").hidden = basket.length > 0;
}

addEventListener("basket", show);
addEventListener("storage", show);
show();
