// Light or dark: what the visitor chose last, else what the system says.
const key = "fernhill-theme";
const root = document.documentElement;
const chosen = localStorage.getItem(key);
if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("[data-theme-switch]");
  if (!button) return;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem(key, root.dataset.theme);
    show();
  });
  show();
});
