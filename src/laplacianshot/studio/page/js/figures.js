// @ts-check
/** How far it is: the estimate of accuracy, the share of each class, and counts. */

import { paint } from "./color.js";
import { count, el, percent } from "./dom.js";
import { store } from "./store.js";

const figures = el("section", { class: "figures", "aria-label": "How far it is" });

export function buildFigures() {
  store.on(["state", "columns", "theme"], showFigures);
  return figures;
}

function showFigures() {
  const { state } = store;
  if (!state) return;
  const { counts, accuracy } = state;
  const bar = el("div", { class: "bar", role: "img", "aria-label": "Shares of the classes, given and predicted" });
  for (const known of state.classes) {
    for (const [n, soft] of [
      [known.given, ""],
      [known.accepted + known.predicted, "soft"],
    ]) {
      const part = paint(
        el("i", {
          class: String(soft),
          title: `${known.name}: ${count(Number(n))} ${soft ? "predicted" : "given"}`,
        }),
        known.id,
      );
      part.style.width = `${(100 * Number(n)) / Math.max(1, state.source.total)}%`;
      if (n) bar.append(part);
    }
  }
  const pairs = [
    [counts.given, "given"],
    [counts.predicted, "predicted"],
    [counts.accepted, "accepted"],
    [counts.unlabeled + counts.waiting, "unlabeled"],
    [counts.failed, "unreadable"],
  ];
  figures.replaceChildren(
    estimate(accuracy),
    bar,
    el(
      "dl",
      {},
      ...pairs.filter(([n], place) => n || place < 2).map(([n, what]) => figure(count(Number(n)), String(what))),
    ),
  );
}

/** @param {string} value @param {string} what */
const figure = (value, what) => el("div", {}, el("dt", {}, what), el("dd", {}, value));

/** @param {import("./types.js").Accuracy | null} accuracy */
function estimate(accuracy) {
  if (!accuracy)
    return el("p", { class: "quiet", id: "accuracy" }, "The accuracy is estimated once two classes have a label.");
  return el(
    "p",
    { class: "big", id: "accuracy", title: accuracy.source },
    el("b", {}, percent(accuracy.estimate)),
    el(
      "span",
      {},
      `of the predicted labels are expected to be right (${percent(accuracy.low)} to ${percent(accuracy.high)})`,
    ),
  );
}
