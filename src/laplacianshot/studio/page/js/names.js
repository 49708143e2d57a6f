// @ts-check
/** Start from names: the classes, typed or pasted, label everything before anybody has labeled an item. */

import { nameClasses } from "./actions.js";
import { confirmed } from "./dialogs.js";
import { el } from "./dom.js";
import { store } from "./store.js";

const EXAMPLE = "refund: the customer wants the money back\ndelivery problem\nchange of address";

/** @param {string} id */
const area = (id) =>
  el("textarea", {
    id,
    rows: 3,
    maxLength: 200_000,
    spellcheck: false,
    dir: "auto",
    placeholder: EXAMPLE,
    "aria-label": "Names of the classes, one per line",
  });

const typed = area("class-names");
const about = el("p", { class: "quiet" });
const go = el("button", { class: "primary" });
const start = el(
  "form",
  { class: "start", "aria-labelledby": "start-title" },
  el("h2", { id: "start-title" }, "Do you know the classes?"),
  about,
  typed,
  el("div", { class: "row" }, el("span", { class: "quiet" }, "Or label the item below, one by one."), go),
);

/** What names do here, and what the button says. */
function words() {
  const names = store.state?.names;
  if (names?.usable)
    return {
      text: "Type or paste their names, one per line; a description may follow after a colon. Everything is labeled by them at once, and your labels correct it.",
      yes: "Label everything",
    };
  return {
    text: `Type or paste their names, one per line, then label a few items of each. The names themselves tell nothing here: ${names?.reason ?? ""}`,
    yes: "Add classes",
  };
}

/** The box at the start of a project without classes. */
export function buildStart() {
  start.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!typed.value.trim()) return typed.focus();
    go.disabled = true;
    if (await nameClasses(typed.value)) typed.value = "";
    go.disabled = false;
  });
  store.on(["state"], () => {
    const { text, yes } = words();
    start.hidden = !store.state || store.classes.length > 0;
    about.textContent = text;
    go.textContent = yes;
  });
  return start;
}

/** Ask for a list of classes later on. */
export async function askNames() {
  const more = area("more-names");
  const { text, yes } = words();
  queueMicrotask(() => more.focus());
  const agreed = await confirmed("Classes by name", [el("p", { class: "quiet" }, text), more], { yes, wide: true });
  if (agreed && more.value.trim()) await nameClasses(more.value);
}
