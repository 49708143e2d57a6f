// @ts-check
/** How far it is: the estimate of accuracy, the share of each class, and counts. */

import { paint } from "./color.js";
import { count, counted, el, percent } from "./dom.js";
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
  const expected = accuracy?.expected;
  const confidence = typeof expected === "number" && figure(percent(expected), "mean confidence");
  figures.replaceChildren(
    estimate(accuracy),
    bar,
    el(
      "dl",
      {},
      ...pairs.filter(([n], place) => n || place < 2).map(([n, what]) => figure(count(Number(n)), String(what))),
      confidence,
    ),
  );
}

/** @param {string} value @param {string} what */
const figure = (value, what) => el("div", {}, el("dt", {}, what), el("dd", {}, value));

/** @param {import("./types.js").Accuracy | null} accuracy */
function estimate(accuracy) {
  if (!accuracy || accuracy.estimate === null || !accuracy.checked)
    return el(
      "p",
      { class: "quiet", id: "accuracy" },
      "The accuracy is estimated once a few items of each class are labeled.",
    );
  const range =
    accuracy.low !== null && accuracy.high !== null ? `, ${percent(accuracy.low)} to ${percent(accuracy.high)}` : "";
  const how = `Test: ${accuracy.right} of ${accuracy.checked} given labels are predicted correctly when they are held back.`;
  const more =
    accuracy.expected === null
      ? ""
      : ` By their confidence, ${percent(accuracy.expected)} of the predicted labels are expected to be right.`;
  return el(
    "p",
    { class: "big", id: "accuracy", title: how + more },
    el("b", {}, percent(accuracy.estimate)),
    el("span", {}, `accuracy on ${counted(accuracy.checked, "held-back label")}${range}`),
  );
}
