// @ts-check
/** One item large, the classes below it, and the queue of what to label next. */

import { accept, labelAs, labelAsNew } from "./actions.js";
import { api, picture } from "./api.js";
import { paint } from "./colour.js";
import { byId, el, icon, percent, words } from "./dom.js";
import { draggable } from "./drag.js";
import { ORIGIN } from "./order.js";
import { pickClass } from "./picker.js";
import { store } from "./store.js";
import { want } from "./sync.js";
import { about, face, image, nameOf } from "./tiles.js";
import { say } from "./toast.js";

/** Buttons for so many classes; the others are found by typing. */
const BUTTONS = 30;
const STRIP = 24;

let current = -1;
/** @type {number[]}  items that were shown, for going back */
const trail = [];
/** @type {Set<number>}  items that were passed over */
const skipped = new Set();
/** @type {Map<number, number>}  probability of each class for the current item */
let chances = new Map();
let chancesOf = "";
let stopgap = false; // on the desk for want of a queue
let returning = false; // a label was undone, and its item may come back

const lead = el("p", { class: "lead" });
const stage = el("div", { class: "stage" });
const verdict = el("p", { class: "verdict", id: "verdict" });
const choices = el("div", { class: "choices", role: "group", "aria-label": "Label as" });
const input = el("input", {
  type: "text",
  id: "name-it",
  maxLength: 200,
  autocomplete: "off",
  spellcheck: false,
  dir: "auto",
});
const form = el("form", { class: "name-it" }, input, el("button", { class: "primary" }, "Label"));
const back = el("button", { class: "button", type: "button", onclick: () => previous() }, icon("left"), "Back");
const yes = el(
  "button",
  { class: "button", type: "button", id: "accept-one", onclick: () => confirm() },
  icon("check"),
  el("span", {}, "Accept"),
  el("kbd", {}, "space"),
);
const next = el("button", { class: "button", type: "button", onclick: () => skip() }, "Skip", icon("right"));
const strip = el("div", { class: "strip", role: "group", "aria-label": "To label next" });

export function buildLabelView() {
  byId("label-view").append(
    el(
      "div",
      { class: "desk" },
      lead,
      el("div", { class: "card" }, stage, verdict),
      choices,
      form,
      el("div", { class: "moves" }, back, yes, next),
    ),
    el("div", { class: "next" }, el("h2", {}, "Next"), strip),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = input.value.trim();
    if (!name || current < 0) return input.focus();
    const labelled = current;
    if (await labelAsNew([labelled], name)) {
      input.value = "";
      advance(labelled);
    }
  });
  draggable(stage, () => current);
  store.on(["state", "queue", "columns"], settle);
  store.on(["state", "columns", "theme", "texts"], show);
  store.on(["undone"], () => {
    returning = true;
  });
  store.on(["view"], () => {
    if (store.view !== "label") return;
    store.focus = current;
    store.changed("focus");
    settle();
  });
}

/** Items that may be asked about, the most useful first. */
function line() {
  const open = (/** @type {number} */ i) =>
    store.columns.origins[i] !== ORIGIN.given && store.columns.origins[i] !== ORIGIN.failed;
  const queue = store.queue.filter(open);
  const fresh = queue.filter((i) => !skipped.has(i));
  return fresh.length ? fresh : queue;
}

/** Have an item on the desk. What lies there stays until it is labelled or passed over. */
function settle() {
  if (!store.columns.n) return;
  const last = trail[trail.length - 1];
  if (returning && last !== undefined && !skipped.has(last) && store.columns.origins[last] !== ORIGIN.given) {
    returning = false;
    previous();
  } else if (current < 0 || current >= store.columns.n || (stopgap && !trail.length && store.queue.length)) {
    const [first] = line();
    stopgap = first === undefined;
    go(first ?? fallback());
  } else show();
}

/** Where nothing is suggested: the least sure; where nothing is predicted, items from all over the source. */
function fallback() {
  const { columns } = store;
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < columns.n; i++) {
    if (columns.origins[i] === ORIGIN.given || columns.origins[i] === ORIGIN.failed || skipped.has(i)) continue;
    // Multiples of the golden ratio never come near one another: sources are often sorted.
    const sure = Number.isNaN(columns.confidence[i]) ? 2 + ((i * 0.6180339887) % 1) : columns.confidence[i];
    if (sure < least) [best, least] = [i, sure];
  }
  return best;
}

/** Have an item of another view on the desk. @param {number} item */
export function lookCloser(item) {
  if (current >= 0) trail.push(current);
  store.select([]);
  go(item);
  store.look("label");
}

/** @param {number} item */
function go(item) {
  current = item;
  store.focus = item;
  store.changed("focus");
  chances = new Map();
  chancesOf = "";
  show();
  if (item >= 0 && store.view === "label") say(`Next: ${nameOf(item)}: ${about(item)}`);
}

/** @param {number} labelled */
function advance(labelled) {
  if (labelled !== current) return;
  returning = false;
  trail.push(labelled);
  skipped.delete(labelled);
  const [first] = line().filter((i) => i !== labelled);
  go(first ?? fallback());
}

/** Label the item on the desk. @param {number} id */
export function decide(id) {
  if (current < 0) return;
  const labelled = current;
  labelAs([labelled], id);
  advance(labelled);
}

/** Accept what the graph says of it. */
export function confirm() {
  if (current < 0) return;
  if (store.columns.origins[current] !== ORIGIN.predicted) return skip();
  const labelled = current;
  accept([labelled]);
  advance(labelled);
}

export function skip() {
  if (current < 0) return;
  trail.push(current);
  skipped.add(current);
  const [first] = line().filter((i) => i !== current);
  go(first ?? fallback());
}

export function previous() {
  const item = trail.pop();
  if (item !== undefined) go(item);
}

/** Choose a class by typing. */
export function typeClass() {
  if (current < 0) return;
  const labelled = current;
  const done = () => advance(labelled);
  pickClass(choices, {
    label: "Label as",
    pick: (id) => (labelAs([labelled], id), done()),
    make: (name) => labelAsNew([labelled], name).then((good) => good && done()),
  });
}

function show() {
  if (!store.state || store.view !== "label") return;
  lead.replaceChildren(...teaching());
  const none = current < 0;
  form.hidden = choices.hidden = none;
  for (const button of [back, yes, next]) button.hidden = none && button !== back;
  back.disabled = !trail.length;
  if (none) {
    stage.replaceChildren(empty());
    verdict.replaceChildren();
    strip.replaceChildren();
    stage.dataset.item = "";
    return;
  }
  showStage();
  showVerdict();
  showChoices();
  showStrip();
  const first = store.classes.length < 2;
  input.placeholder = first
    ? store.classes.length
      ? "Name another class"
      : "What is this? Type a name"
    : "Another name\u2026";
  input.setAttribute("aria-label", "Name of a class for this item, old or new");
  form.classList.toggle("first", first);
  yes.hidden = !store.state.counts.predicted;
  yes.disabled = store.columns.origins[current] !== ORIGIN.predicted;
  ask();
}

/** What to do now, in a sentence. */
function teaching() {
  const { classes, counts, hint } = /** @type {import("./types.js").State} */ (store.state);
  const noun = store.noun(2);
  if (!classes.length)
    return [
      el("b", {}, "What is this? "),
      `Give it the name of a class. After two classes the graph labels the other ${noun}.`,
    ];
  if (!counts.predicted && hint) return [hint];
  return [
    el("b", {}, "What to label next. "),
    "These teach the graph most. ",
    el("span", { class: "keys" }, "Press a number, or ", el("kbd", {}, "space"), " if it is right."),
  ];
}

function empty() {
  const { counts, embedding } = /** @type {import("./types.js").State} */ (store.state);
  if (counts.waiting && !embedding.finished)
    return el("p", { class: "quiet" }, "The first items are being read. They appear here in a moment.");
  return el(
    "div",
    { class: "done" },
    icon("check"),
    el("p", {}, el("b", {}, "Every item has a label from a person.")),
    el("p", { class: "quiet" }, "Export them from the bar on top."),
  );
}

function showStage() {
  const { source } = /** @type {import("./types.js").State} */ (store.state);
  const known = store.texts.get(current);
  if (!known) want([current]);
  const key = `${current} ${known ? 1 : 0}`;
  if (stage.dataset.item === key) return;
  stage.dataset.item = key;
  stage.className = `stage ${source.kind}`;
  stage.parentElement?.classList.toggle("low", source.kind === "vectors");
  if (source.kind === "pictures") {
    const large = el("img", {
      src: picture(current, source.key),
      alt: nameOf(current),
      draggable: false,
      class: source.tiny ? "tiny" : "",
    });
    large.addEventListener(
      "error",
      () => large.replaceWith(el("p", { class: "quiet" }, known?.reason ?? "This picture cannot be shown.")),
      { once: true },
    );
    stage.replaceChildren(large);
  } else
    stage.replaceChildren(
      el(
        "p",
        { class: source.kind === "texts" ? "reading" : "row-name", dir: "auto" },
        known?.text ?? known?.id ?? "\u2026",
      ),
    );
}

function showVerdict() {
  const { columns } = store;
  const known = store.classOf(columns.classes[current]);
  const name = words(store.texts.get(current)?.id ?? "", "id");
  if (!known) verdict.replaceChildren(name);
  else {
    const sure = columns.origins[current] === ORIGIN.given ? "given" : `${percent(columns.confidence[current])} sure`;
    const other = store.classOf(store.disputes.get(current));
    const doubt = other && el("span", { class: "danger" }, "neighbours say ", words(other.name));
    verdict.replaceChildren(
      paint(
        el(
          "span",
          { class: "says" },
          el("i", { class: "dot" }),
          words(known.name),
          el("span", { class: "quiet" }, sure),
          doubt,
        ),
        known.id,
      ),
      name,
    );
  }
}

function showChoices() {
  const shown = store.classes.slice(0, BUTTONS);
  choices.replaceChildren(
    ...shown.map((known, place) => {
      const chance = chances.get(known.id) ?? 0;
      const button = el(
        "button",
        {
          type: "button",
          class: known.id === store.columns.classes[current] ? "choice likely" : "choice",
          "data-class": known.id,
          onclick: () => decide(known.id),
        },
        el("i", { class: "chance" }),
        place < 9 && el("kbd", {}, place + 1),
        el("i", { class: "dot" }),
        words(known.name),
        el("span", { class: "share" }, chances.size && chance >= 0.005 ? percent(chance) : ""),
      );
      /** @type {HTMLElement} */ (button.firstElementChild).style.width = `${100 * chance}%`;
      return paint(button, known.id);
    }),
    ...(store.classes.length > BUTTONS
      ? [
          el(
            "button",
            { type: "button", class: "choice", onclick: typeClass },
            `${store.classes.length - BUTTONS} more\u2026`,
          ),
        ]
      : []),
  );
}

function showStrip() {
  const { state } = store;
  const items = line()
    .filter((i) => i !== current)
    .slice(0, STRIP);
  if (state?.source.kind !== "pictures") want(items);
  const kept = new Map([...strip.children].map((node) => [/** @type {HTMLElement} */ (node).dataset.key, node]));
  strip.className = `strip ${state?.source.kind}`;
  strip.replaceChildren(
    ...items.map((i) => {
      const key = `${i} ${store.texts.has(i)}`;
      const node =
        kept.get(key) ??
        el(
          "button",
          {
            type: "button",
            class: "mini",
            "data-key": key,
            "aria-label": `Label ${nameOf(i)} now`,
            onclick: () => (trail.push(current), go(i)),
          },
          state?.source.kind === "pictures" ? image(i, 128) : face(i, 64),
        );
      return paint(/** @type {HTMLElement} */ (node), store.columns.classes[i]);
    }),
  );
  if (!items.length)
    strip.append(
      el("p", { class: "quiet" }, state?.counts.suggested ? "" : "The queue is filled when the labels have settled."),
    );
}

/** The chances of each class, of this item and these predictions. */
async function ask() {
  const { state } = store;
  const wanted = `${current} ${state?.predicted} ${state?.settled}`;
  if (wanted === chancesOf || !(state?.counts.predicted || state?.source.kind === "texts")) return;
  chancesOf = wanted;
  const item = current;
  const detail = await api.item(item).catch(() => null);
  if (!detail || item !== current) return;
  // Lists hold the beginning of a text; the desk shows the whole.
  const reading = stage.querySelector(".reading");
  if (reading && detail.text !== null) reading.textContent = detail.text;
  chances = new Map(detail.probabilities.map((one) => [one.class, one.probability]));
  showChoices();
}
