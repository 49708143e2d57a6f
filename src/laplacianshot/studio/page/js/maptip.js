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
  const [x, y, w, h] = [drawing.left(item), drawing.top(item), tip.offsetWidth, tip.offsetHeight];
  const beside = x + 16 + w > drawing.width ? x - w - 16 : x + 16;
  tip.style.left = `${Math.max(4, Math.min(drawing.width - w - 4, beside))}px`;
  tip.style.top = `${Math.max(4, Math.min(drawing.height - h - 4, y - h / 2))}px`;
}
