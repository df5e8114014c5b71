// The basket lives in the visitor's browser until it is ordered: product id to quantity.
const key = "fernhill-basket";
const most = 20;

export function read() {
  try {
    const found = JSON.parse(localStorage.getItem(key)) ?? {};
    return Object.fromEntries(Object.entries(found).filter(([, n]) => Number.isInteger(n) && n > 0 && n <= most));
  } catch {
    return {};
  }
}

export function set(id, quantity) {
  const basket = read();
  basket[id] = Math.min(most, Math.max(0, Math.trunc(quantity) || 0));
  if (basket[id] === 0) delete basket[id];
  localStorage.setItem(key, JSON.stringify(basket));
  dispatchEvent(new Event("basket"));
}

export const add = (id, quantity) => set(id, (read()[id] ?? 0) + quantity);

export function empty() {
  localStorage.removeItem(key);
  dispatchEvent(new Event("basket"));
}

export const count = () => Object.values(read()).reduce((sum, n) => sum + n, 0);
