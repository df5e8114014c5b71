// The pages work without this. With it, times are those of the reader's clock, and a page follows what happens.
"use strict";

(() => {
  const units = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

  // ago is a time as people say it.
  function ago(time) {
    let amount = (time - Date.now()) / 1000;
    if (Math.abs(amount) < 10) return "just now";
    for (const [unit, size] of units) {
      if (Math.abs(amount) < size) return relative.format(Math.round(amount), unit);
      amount /= size;
    }
  }

  function tellTimes() {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const time = new Date(element.dateTime);
      const text = ago(time);
      if (element.textContent !== text) element.textContent = text;
      if (!element.title) element.title = full.format(time);
    }
  }
  tellTimes();
  setInterval(tellTimes, 15000);

  if (!("follow" in document.body.dataset)) return;
  const sign = document.querySelector(".following");
  const log = document.getElementById("lines");
  let source, over = false;

  // replace puts in what the server rendered. Whoever stood on a link there stands on it afterwards.
  function replace({ name, hash, html }) {
    const element = document.getElementById(name);
    if (!element || element.dataset.part === hash) return;
    const focused = element.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const open = [...element.querySelectorAll("details")].map((d) => d.open);
    element.innerHTML = html;
    element.dataset.part = hash;
    element.querySelectorAll("details").forEach((d, i) => { d.open = !!open[i]; });
    if (focused) element.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    tellTimes();
  }

  // append adds lines, and stays at the end if the reader was there.
  function append(html) {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.insertAdjacentHTML("beforeend", html);
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  function follow() {
    const address = new URL(location.href);
    address.hash = "";
    if (log) address.searchParams.set("after", log.lastElementChild?.value ?? 0);
    source = new EventSource(address);
    source.addEventListener("open", () => { sign.hidden = false; });
    source.addEventListener("part", (e) => replace(JSON.parse(e.data)));
    source.addEventListener("log", (e) => append(JSON.parse(e.data)));
    source.addEventListener("end", () => { over = true; leave(); });
    source.addEventListener("error", () => { sign.hidden = true; });
  }

  function leave() {
    source.close();
    sign.hidden = true;
  }

  // A page that nobody looks at does not hold a connection: browsers have few for one host.
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) leave();
    else follow();
  });
  if (log) log.scrollTop = log.scrollHeight;
  if (!document.hidden) follow();
})();
