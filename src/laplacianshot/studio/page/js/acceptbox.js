// @ts-check
/** Accepts all predicted labels of at least a chosen confidence, and says how many of them are expected to be wrong. */

import { acceptAbove } from "./actions.js";
import { api } from "./api.js";
import { count, counted, el, percent, words } from "./dom.js";
import { tally } from "./order.js";
import { store } from "./store.js";

const slider = el("input", {
  type: "range",
  min: "50",
  max: "100",
  step: "1",
  value: "90",
  id: "accept-least",
  "aria-label": "Minimum confidence to accept",
});
const least = el("output", { htmlFor: "accept-least" }, "90%");
const go = el("button", { class: "primary", type: "button", id: "accept-all", disabled: true }, "Nothing to accept");

const offer = el("p", { class: "quiet", id: "accept-offer" });
const before = el("p", { class: "quiet", id: "accept-before" });

export function buildAcceptBox() {
  slider.addEventListener("input", preview);
  go.addEventListener("click", () =>
    acceptAbove(
      Number(slider.value) / 100,
      store.filter.only !== null && store.filter.only >= 0 ? store.filter.only : null,
    ),
  );
  store.on(["state", "columns", "filter"], preview);
  return el(
    "section",
    { class: "accept", "aria-label": "Accept many" },
    el("h2", {}, "Accept labels with confidence from"),
    el("div", { class: "line" }, slider, least),
    offer,
    go,
    before,
  );
}

/** How many of some labels are expected to be wrong, in words. @param {number} wrong @param {number} total */
const wrongOf = (wrong, total) =>
  wrong < 0.95 ? "hardly any expected to be wrong" : `about ${count(Math.round(wrong))} (${percent(wrong / total)}) expected to be wrong`;

let asking = 0;

/** How many labels the button would accept: counted by the server, which will accept them. */
async function preview() {
  const only = store.filter.only !== null && store.filter.only >= 0 ? store.filter.only : null;
  least.value = `${slider.value}%`;
  // What the button says is what it does: not to be pressed while its number is old.
  go.disabled = true;
  const turn = ++asking;
  await new Promise((later) => setTimeout(later, 80));
  if (turn !== asking || !store.state) return;
  const query = new URLSearchParams({
    origin: "predicted",
    min_confidence: String(Number(slider.value) / 100),
    ...(only === null ? {} : { class: String(only) }),
  });
  const { total, groups } = store.state.counts.predicted
    ? await api.groups(query.toString()).catch(() => ({ total: 0, groups: [] }))
    : { total: 0, groups: [] };
  if (turn !== asking) return;
  const wrong = groups.reduce((sum, group) => sum + group.total * (1 - (group.confidence ?? 0)), 0);
  offer.textContent = total ? `Of ${counted(total, "label")}, ${wrongOf(wrong, total)}.` : "";
  const kept = tally(store.columns);
  before.textContent = kept.accepted
    ? `Accepted so far: ${count(kept.accepted)}, ${wrongOf(kept.wrong, kept.accepted)}. They do not count as given.`
    : "";
  const name = store.classOf(only)?.name;
  go.disabled = !total;
  go.replaceChildren(
    ...(total ? [`Accept ${counted(total, "label")}`, ...(name ? [" of ", words(name)] : [])] : ["Nothing to accept"]),
  );
}
