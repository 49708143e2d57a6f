// @ts-check
/** What is pointed at on the map: picture or text, label and name. */

import { el } from "./dom.js";
import { store } from "./store.js";
import { want } from "./sync.js";
import { about, image, nameOf } from "./tiles.js";

const label = el("p", { class: "label" });
const text = el("p", { class: "sentence", dir: "auto" });
const name = el("p", { class: "name", dir: "auto" });
const lines = el("div", {}, label, text, name);
export const tip = el("div", { class: "map-tip", hidden: true }, lines);

let shown = -1;

/** @param {number} item @param {import("./mapdraw.js").Drawing} drawing */
export function showTip(item, drawing) {
  want([item]);
  if (item !== shown)
    tip.replaceChildren(...(store.state?.source.kind === "pictures" ? [image(item, 128)] : []), lines);
  shown = item;
  label.textContent = about(item);
  text.textContent = store.texts.get(item)?.text ?? "";
  name.textContent = nameOf(item);
  tip.hidden = false;
  drawing.putBeside(tip, item);
}
