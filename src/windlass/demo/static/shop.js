// The shop's page: it asks for its state every two seconds, and draws it.
"use strict";

const EVERY = 2000;
const STALE_SECONDS = 60;
const part = (id) => document.getElementById(id);
let token = "";
const waiting = new Set();
// The order and the product that a customer gives back, while another one is chosen.
let choosing = null;

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  const { on, data, ...rest } = options;
  Object.assign(made, rest);
  Object.assign(made.dataset, data ?? {});
  for (const [event, act] of Object.entries(on ?? {})) made.addEventListener(event, act);
  made.append(...children.filter((child) => child !== null));
  return made;
}

async function call(path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": token },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  const found = await answer.json();
  if (!answer.ok) {
    const text = answer.status === 401 ? "Open the console by its link first: it logs you in." : found.detail;
    throw new Error(text);
  }
  return found;
}

function age(seconds) {
  if (seconds === null) return "never asked";
  if (seconds < 90) return `asked ${Math.round(seconds)} s ago`;
  return `asked ${Math.round(seconds / 60)} min ago`;
}

async function act(path, body) {
  try {
    await call(path, body);
    show(null);
  } catch (problem) {
    show(problem.message);
  }
  await refresh();
}

async function look(code) {
  waiting.add(code);
  await act("look", { code });
}

async function swap(code) {
  const { order, back } = choosing;
  choosing = null;
  await act("exchange", { order, back, out: code, click: crypto.randomUUID() });
}

function choose(found) {
  choosing = { order: found.id, back: found.lines[0].code };
  refresh();
}

function wares(offer) {
  if (offer.available === null) return element("span", { className: "soft small" }, "not sold here");
  const isGone = offer.available === 0;
  const isChosen = choosing !== null;
  const text = isChosen ? "Take this instead" : `Buy · ${offer.available} left`;
  return element(
    "button",
    {
      className: isChosen ? "buy swap" : "buy",
      disabled: isGone || (isChosen && choosing.back === offer.code),
      ariaLabel: isChosen ? `Take ${offer.code} instead` : `Buy ${offer.code}`,
      on: { click: () => (isChosen ? swap(offer.code) : act("buy", { code: offer.code })) },
    },
    isGone ? "Sold out" : text,
  );
}

function card(offer) {
  const isStale = offer.age_seconds === null || offer.age_seconds > STALE_SECONDS;
  if (!isStale) waiting.delete(offer.code);
  const quantity = offer.quantity === null ? "–" : String(offer.quantity);
  const shown = waiting.has(offer.code) ? "asking …" : age(offer.age_seconds);
  return element(
    "li",
    { data: { code: offer.code }, className: isStale ? "stale" : "" },
    element(
      "button",
      { className: "look", title: "Look: a stale quantity is asked for", on: { click: () => look(offer.code) } },
      element("span", { className: "code" }, offer.code),
      element("span", { className: "quantity" }, quantity, element("small", {}, " on hand")),
      element("span", { className: "age" }, shown),
    ),
    wares(offer),
  );
}

function order(found) {
  const lines = found.lines.map((line) => `${line.pieces} × ${line.code}`).join(", ");
  const isOpen = found.state === "on its way" && found.lines.length > 0;
  const isChosen = choosing?.order === found.id;
  return element(
    "li",
    { data: { order: found.id } },
    element("span", {}, element("b", {}, found.id), ` ${lines}`, element("br"), element("small", {}, found.state)),
    isOpen
      ? element(
          "span",
          { className: "acts" },
          element(
            "button",
            { on: { click: () => (isChosen ? ((choosing = null), refresh()) : choose(found)) } },
            isChosen ? "Keep it" : "Exchange",
          ),
          element("button", { on: { click: () => act("cancel", { order: found.id }) } }, "Cancel"),
        )
      : null,
  );
}

function letter(found) {
  return element(
    "li",
    { className: found.is_resolved ? "resolved" : found.severity },
    element("b", {}, found.title),
    element("small", { className: "soft" }, found.text),
  );
}

function fill(id, found, make) {
  // What has the focus keeps it while the rest is drawn anew.
  const focus = document.activeElement;
  const key = focus?.closest("li")?.dataset;
  const name = focus?.className;
  part(id).replaceChildren(...found.map(make));
  if (!key?.code || document.activeElement !== document.body) return;
  part(id).querySelector(`li[data-code="${CSS.escape(key.code)}"] .${name}`)?.focus();
}

function draw(state) {
  fill("offers", state.offers, card);
  fill("orders", state.orders, order);
  fill("inbox", state.inbox.slice(0, 6), letter);
  fill("news", state.news, (text) => element("li", {}, text));
  part("none").hidden = state.offers.length > 0;
  part("no-orders").hidden = state.orders.length > 0;
  part("no-letters").hidden = state.inbox.length > 0;
  part("count").textContent = state.inbox.length || "";
  const sale = state.sale;
  part("sale").hidden = sale === null;
  if (sale) {
    const all = `${sale.sold} of ${sale.pieces} pieces of ${sale.code}`;
    part("sale").textContent = sale.is_over
      ? `Last sale: ${all} in a moment, ${sale.refused} customers came too late.`
      : `Sale! ${all} are gone already.`;
  }
}

function show(text) {
  part("problem").hidden = text === null;
  part("problem").textContent = text ?? "";
}

async function refresh() {
  try {
    const search = part("search").value.trim().toLowerCase();
    draw(await call(`state?search=${encodeURIComponent(search)}`));
  } catch (problem) {
    show(problem.message);
  }
}

async function begin() {
  try {
    token = (await call("../api/session")).token ?? "";
  } catch (problem) {
    show(problem.message);
  }
  await refresh();
  setInterval(() => document.hidden || refresh(), EVERY);
}

part("search").addEventListener("input", refresh);
begin();
