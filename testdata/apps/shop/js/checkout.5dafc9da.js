// Sends the order to the checkout function.
import { count, empty, read } from "./basket.da5c62e9.js";

const form = document.querySelector("form[data-checkout]");
const said = document.querySelector("[data-said]");

function say(text, warn = false) {
  said.textContent = text;
  said.className = warn ? "note warn" : "note";
  said.hidden = false;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (count() === 0) return say("Your basket is empty.", true);
  const order = { ...Object.fromEntries(new FormData(form)), items: read() };
  try {
    const answer = await fetch("/api/checkout", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(order),
    });
    const result = await answer.json();
    if (!answer.ok) return say(result.error ?? "The order could not be placed.", true);
    empty();
    form.hidden = true;
    say(`Thank you, ${result.name}. Your order has the number ${result.order}.`);
  } catch {
    say("The order could not be placed just now. Your basket is kept; please try again.", true);
  }
});
