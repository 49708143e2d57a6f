// @ts-check
/** One item large, the classes below it, and the queue of what to label next. */

import { labelAs, labelAsNew } from "./actions.js";
import { api, picture } from "./api.js";
import { paint } from "./color.js";
import { canGoBack, confirm, decide, goOn, line, onDesk, previous, skip, take } from "./desk.js";
import { byId, el, icon, percent, words } from "./dom.js";
import { draggable } from "./drag.js";
import { handFree } from "./hand.js";
import { buildStart } from "./names.js";
import { isOpen, ORIGIN } from "./order.js";
import { pickClass } from "./picker.js";
import { store } from "./store.js";
import { want } from "./sync.js";
import { enlarge, face, image, nameOf, preload } from "./tiles.js";

/** Buttons for so many classes; the others are found by typing. */
const BUTTONS = 30;
const STRIP = 24;
/** Pictures of the queue that are fetched before they are needed. */
const AHEAD = 2;

/** @type {Map<number, number>}  probability of each class for the current item */
let chances = new Map();
let chancesOf = "";

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
  el("span", {}, "Confirm"),
  el("kbd", {}, "space"),
);
const next = el("button", { class: "button", type: "button", onclick: () => skip() }, "Skip", icon("right"));
const strip = el("div", { class: "strip", role: "group", "aria-label": "To label next" });

export function buildLabelView() {
  byId("label-view").append(
    el(
      "div",
      { class: "desk" },
      buildStart(),
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
    const labeled = onDesk();
    if (!name || labeled < 0) return input.focus();
    input.value = "";
    if (!(await goOn(labeled, labelAsNew([labeled], name)))) input.value = name;
  });
  draggable(stage, onDesk);
  store.on(["state", "columns", "queue", "theme", "texts", "desk", "view"], show);
}

/** Choose a class by typing. */
export function typeClass() {
  const labeled = onDesk();
  if (labeled < 0) return;
  pickClass(choices, {
    label: "Label as",
    pick: (id) => goOn(labeled, labelAs([labeled], id)),
    make: (name) => goOn(labeled, labelAsNew([labeled], name)),
  });
}

function show() {
  if (!store.state || store.view !== "label") return;
  const current = onDesk();
  lead.replaceChildren(...teaching());
  const none = current < 0;
  form.hidden = choices.hidden = none;
  for (const button of [back, yes, next]) button.hidden = none && button !== back;
  back.disabled = !canGoBack();
  if (none) {
    stage.replaceChildren(empty());
    verdict.replaceChildren();
    strip.replaceChildren();
    stage.dataset.item = "";
    return;
  }
  showStage(current);
  showVerdict(current);
  showChoices(current);
  showStrip(current);
  const first = store.classes.length < 2;
  input.placeholder = first
    ? store.classes.length
      ? "Name another class"
      : "What is this? Type a name"
    : "Another name\u2026";
  input.setAttribute("aria-label", "Class name for this item, existing or new");
  form.classList.toggle("first", first);
  yes.hidden = !store.state.counts.predicted && !store.state.counts.accepted;
  yes.disabled = !isOpen(store.columns.origins[current]);
  ask(current);
}

/** What to do now, in a sentence. */
function teaching() {
  const { classes, counts, hint, names } = /** @type {import("./types.js").State} */ (store.state);
  const noun = store.noun(2);
  if (!classes.length)
    return [
      el("b", {}, "What is this? "),
      `Type a class name. After labels of two classes, the other ${noun} are labeled for you.`,
    ];
  if (!counts.predicted && hint) return [hint];
  if (names.counted && !counts.given)
    return [
      el("b", {}, "Labeled by names alone. "),
      "Nothing has checked them yet: label a few of these, and the rest is corrected. ",
      el("span", { class: "keys" }, "Press a number, or ", el("kbd", {}, "space"), " if it is right."),
    ];
  return [
    el("b", {}, "What to label next. "),
    "Labels for these items help most. ",
    el("span", { class: "keys" }, "Press a number, or ", el("kbd", {}, "space"), " if it is right."),
  ];
}

function empty() {
  const { counts, embedding } = /** @type {import("./types.js").State} */ (store.state);
  if (counts.waiting && !embedding.finished)
    return el("p", { class: "quiet" }, "Reading the first items. They will appear here in a moment.");
  if (counts.predicted || counts.unlabeled)
    return el("p", { class: "quiet" }, "Choosing what to label next.");
  return el(
    "div",
    { class: "done" },
    icon("check"),
    el("p", {}, el("b", {}, "Every item has a label that was given or accepted.")),
    el("p", { class: "quiet" }, "Use Export at the top right to save them."),
  );
}

/** @param {number} current */
function showStage(current) {
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
    // Tiny ones fill the frame by themselves.
    if (!source.tiny) large.addEventListener("load", () => enlarge(large, stage));
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

/** @param {number} current */
function showVerdict(current) {
  const { columns } = store;
  const known = store.classOf(columns.classes[current]);
  const name = words(store.texts.get(current)?.id ?? "", "id");
  if (!known) verdict.replaceChildren(name);
  else {
    const accepted = columns.origins[current] === ORIGIN.accepted ? "accepted, " : "";
    const confidence =
      columns.origins[current] === ORIGIN.given
        ? "given"
        : `${accepted}confidence ${percent(columns.confidence[current])}`;
    const other = store.classOf(store.disputes.get(current));
    const doubt = other && el("span", { class: "danger" }, "neighbors suggest ", words(other.name));
    verdict.replaceChildren(
      paint(
        el(
          "span",
          { class: "says" },
          el("i", { class: "dot" }),
          words(known.name),
          el("span", { class: "quiet" }, confidence),
          doubt,
        ),
        known.id,
      ),
      name,
    );
  }
}

/** @param {number} current */
function showChoices(current) {
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

/** @param {number} current */
function showStrip(current) {
  const { state } = store;
  const items = line()
    .filter((i) => i !== current)
    .slice(0, STRIP);
  if (state?.source.kind !== "pictures") want(items);
  else for (const i of items.slice(0, AHEAD)) preload(i, state.source.key);
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
            onclick: () => take(i),
          },
          state?.source.kind === "pictures" ? image(i, 128) : face(i, 64),
        );
      return paint(/** @type {HTMLElement} */ (node), store.columns.classes[i]);
    }),
  );
  if (!items.length)
    strip.append(
      el("p", { class: "quiet" }, state?.counts.suggested ? "" : "The queue is filled when the predictions are ready."),
    );
}

/** The chances of each class, of this item and these predictions. @param {number} item */
async function ask(item) {
  const { state } = store;
  const wanted = `${item} ${state?.predicted} ${state?.settled}`;
  if (wanted === chancesOf || !(state?.counts.predicted || state?.source.kind === "texts")) return;
  // Those of another item tell nothing of this one.
  if (!chancesOf.startsWith(`${item} `)) chances = new Map();
  chancesOf = wanted;
  const detail = await api.item(item).catch(() => null);
  await handFree();
  if (!detail || item !== onDesk()) return;
  // Lists hold the beginning of a text; the desk shows the whole.
  const reading = stage.querySelector(".reading");
  if (reading && detail.text !== null) reading.textContent = detail.text;
  chances = new Map(detail.probabilities.map((one) => [one.class, one.probability]));
  showChoices(item);
}
