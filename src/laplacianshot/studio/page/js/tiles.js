// @ts-check
/** One item as it is shown in lists: a picture, a sentence or the name of a row, with its label. */

import { picture, thumbnail } from "./api.js";
import { paint } from "./color.js";
import { el, icon, percent, words } from "./dom.js";
import { FLAG, ORIGIN } from "./order.js";
import { store } from "./store.js";

/** Small pictures are enlarged at most so many times. */
const LARGEST = 4;

/** What a person would say of the label of an item. @param {number} i */
export function about(i) {
  const { columns } = store;
  const name = store.classOf(columns.classes[i])?.name;
  const parts = [];
  if (columns.origins[i] === ORIGIN.failed) parts.push("could not be read");
  else if (columns.origins[i] === ORIGIN.waiting && !name) parts.push("waiting to be read");
  else if (!name) parts.push("no label");
  else
    parts.push(
      columns.origins[i] === ORIGIN.given
        ? `\u2068${name}\u2069, given`
        : `\u2068${name}\u2069, ${columns.origins[i] === ORIGIN.accepted ? "accepted, " : ""}confidence ${percent(columns.confidence[i])}`,
    );
  const other = store.classOf(store.disputes.get(i))?.name;
  if (columns.flags[i] & FLAG.disputed)
    parts.push(other ? `neighbors suggest \u2068${other}\u2069` : "disputed by its neighbors");
  if (columns.flags[i] & FLAG.novel) parts.push("fits no class");
  return parts.join(", ");
}

/** Name of an item, as far as it is known yet. @param {number} i */
export const nameOf = (i) => store.texts.get(i)?.id ?? `item ${i}`;

/** The picture of an item, small. @param {number} i @param {64 | 128 | 256 | 512} size */
export function image(i, size) {
  const small = el("img", {
    src: thumbnail(i, size, store.state?.source.key ?? ""),
    alt: "",
    decoding: "async",
    draggable: false,
    class: store.state?.source.tiny ? "tiny" : "",
  });
  small.addEventListener("error", () => small.replaceWith(el("span", { class: "no-picture" }, icon("alert"))), {
    once: true,
  });
  return small;
}

/** What stands for an item in a list, without its label. @param {number} i @param {64 | 128 | 256 | 512} size */
export function face(i, size) {
  if (store.state?.source.kind === "pictures") return el("div", { class: "frame" }, image(i, size));
  const known = store.texts.get(i);
  return el("p", { class: "sentence", dir: "auto" }, known ? (known.text ?? known.id) : "\u2026");
}

/**
 * Bring an element up to date with the label of its item.
 *
 * @param {HTMLElement} tile
 * @param {number} i
 * @param {boolean} named  whether the class is named
 */
export function relabel(tile, i, named) {
  const { columns } = store;
  const [id, origin, confidence] = [columns.classes[i], columns.origins[i], columns.confidence[i]];
  const disputed = (columns.flags[i] & FLAG.disputed) !== 0;
  const stamp = `${id} ${origin} ${percent(confidence)} ${columns.flags[i]} ${named} ${store.disputes.get(i)} ${store.state?.version}`;
  tile.setAttribute("aria-label", `${nameOf(i)}: ${about(i)}`);
  if (tile.dataset.stamp === stamp) return;
  tile.dataset.stamp = stamp;
  paint(tile, id);
  tile.classList.toggle("given", origin === ORIGIN.given);
  tile.classList.toggle("accepted", origin === ORIGIN.accepted);
  tile.classList.toggle("novel", (columns.flags[i] & FLAG.novel) !== 0);
  tile.classList.toggle("disputed", disputed);
  const known = store.classOf(id);
  const other = disputed ? store.classOf(store.disputes.get(i)) : null;
  const says =
    origin === ORIGIN.given
      ? icon("pin")
      : el("span", { class: "confidence" }, known ? percent(confidence) : origin === ORIGIN.failed ? "unreadable" : "");
  const caption = tile.querySelector(".caption");
  caption?.replaceChildren(
    ...(named && known ? [el("i", { class: "dot" }), words(known.name)] : []),
    ...(origin === ORIGIN.accepted ? [icon("check")] : []),
    says,
    ...(other
      ? [
          paint(
            el(
              "span",
              { class: "other", title: "what its neighbors say" },
              "\u2192\u2009",
              el("i", { class: "dot" }),
              words(other.name),
            ),
            other.id,
          ),
        ]
      : []),
  );
  const level = /** @type {HTMLElement | null} */ (tile.querySelector(".level i"));
  if (level) level.style.width = `${known ? 100 * (confidence || 0) : 0}%`;
}

/** @type {Set<string>} */
const preloaded = new Set();

/** Have the browser fetch a picture before it is asked for. @param {number} item @param {string} key */
export function preload(item, key) {
  const address = picture(item, key);
  if (preloaded.has(address)) return;
  preloaded.add(address);
  new Image().src = address;
}

/**
 * Small pictures are shown larger than they are, as far as there is room.
 *
 * @param {HTMLImageElement} shown
 * @param {HTMLElement} frame
 */
export function enlarge(shown, frame) {
  const room = Math.min(frame.clientWidth / shown.naturalWidth, frame.clientHeight / shown.naturalHeight);
  const factor = Math.min(LARGEST, 0.9 * room);
  if (factor > 1) shown.style.width = `${factor * shown.naturalWidth}px`;
}
