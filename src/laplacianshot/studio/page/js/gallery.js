// @ts-check
/** The gallery: all items that pass the filter, grouped and sorted; only what is seen is in the page. */

import { lookCloser } from "./desk.js";
import { byId, counted, el, icon } from "./dom.js";
import { draggable } from "./drag.js";
import { arrangement } from "./filters.js";
import { heading, showSummary, summary } from "./galleryparts.js";
import { Grid, HEAD } from "./grid.js";
import { arrange } from "./order.js";
import { store } from "./store.js";
import { want } from "./sync.js";
import { face, relabel } from "./tiles.js";

/** Pixels above and below the window that are made too. */
const MARGIN = 500;

let grid = new Grid([], { width: 1, least: 1, rowHeight: null, headed: false });
let tileSize = 84;
/** @type {Map<number, HTMLElement>}  tiles in the page */
const tiles = new Map();
/** @type {Map<number | null, HTMLElement>} */
const heads = new Map();
let anchor = -1; // from here a range goes on
let stale = true;

// Headings stand beside the list of items, not in it: a list box holds nothing but what can be chosen.
const list = el("div", { class: "items", id: "items", role: "listbox", tabIndex: 0, "aria-multiselectable": "true" });
const sheet = el("div", { class: "sheet" }, list);
const box = el("div", { class: "gallery", id: "gallery" }, sheet);

/** @param {HTMLElement} filters */
export function buildGallery(filters) {
  byId("gallery-view").append(filters, el("div", { class: "summary" }, summary, arrangement), box);
  let waiting = false;
  box.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(() => ((waiting = false), draw()));
    waiting = true;
  });
  box.addEventListener("click", clicked);
  box.addEventListener("dblclick", (event) => {
    const item = itemAt(event);
    if (item >= 0) lookCloser(item);
  });
  list.addEventListener("focus", () => {
    if (grid.rank(store.focus) < 0 && grid.total) point(grid.at(firstSeen()));
  });
  new ResizeObserver(() => layOut(false)).observe(box);
  store.on(["state", "columns", "filter", "theme"], () => layOut(true));
  store.on(["view"], () => layOut(false));
  store.on(["texts", "selection", "focus"], refreshTiles);
}

/** @param {number} size */
export function setTileSize(size) {
  tileSize = size;
  layOut(false);
}

/** Arrange everything anew. @param {boolean} moving  whether tiles glide to their new places */
function layOut(moving) {
  if (store.view !== "gallery" || !store.state) {
    stale = true;
    return;
  }
  const { kind } = store.state.source;
  const width = box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
  if (width <= 0) return;
  const groups = arrange(
    store.columns,
    store.filter,
    store.classes.map((known) => known.id),
    store.mostNovel,
  );
  const least = { pictures: tileSize, texts: Math.max(340, tileSize * 4), vectors: Math.max(200, tileSize * 2) }[kind];
  const old = grid;
  grid = new Grid(groups, {
    width,
    least: Math.min(least, width),
    rowHeight: kind === "pictures" ? null : kind === "texts" ? 64 : 42,
    headed: store.filter.grouped,
  });
  sheet.classList.toggle("moving", moving && !stale);
  stale = false;
  sheet.style.height = `${grid.height}px`;
  sheet.style.setProperty("--cell-width", `${grid.cellWidth}px`);
  sheet.style.setProperty("--cell-height", `${grid.cellHeight}px`);
  keepPlace(old);
  box.querySelector(".nothing")?.remove();
  list.setAttribute("aria-label", counted(grid.total, "item"));
  box.append(...[showSummary(grid.total)].filter((node) => node !== null));
  for (const head of heads.values()) head.remove();
  heads.clear();
  draw();
}

/** Stay at the same group when what is above it has changed its height. @param {Grid} old */
function keepPlace(old) {
  const top = box.scrollTop;
  if (top <= 0) return;
  const before = old.blocks.findLast((block) => block.top <= top);
  const now = before && grid.blocks.find((block) => block.id === before.id);
  if (before && now && now.top !== before.top)
    box.scrollTop = now.top + Math.min(top - before.top, Math.max(0, now.height - HEAD));
}

function draw() {
  if (store.view !== "gallery") return;
  const [from, to] = [box.scrollTop - MARGIN, box.scrollTop + box.clientHeight + MARGIN];
  /** @type {Set<number>} */
  const seen = new Set();
  const fresh = document.createDocumentFragment();
  const seenHeads = new Set();
  for (const { block, start, end } of grid.between(from, to)) {
    if (grid.head) {
      seenHeads.add(block.id);
      if (!heads.has(block.id)) {
        const head = heading(block);
        heads.set(block.id, head);
        sheet.append(head);
      }
    }
    for (let k = start; k < end; k++) {
      const i = block.items[k];
      seen.add(i);
      let tile = tiles.get(i);
      if (!tile) {
        tile = makeTile(i);
        tiles.set(i, tile);
        fresh.append(tile);
      }
      const { left, top } = grid.place(block, k);
      tile.style.transform = `translate(${left}px, ${top}px)`;
      tile.setAttribute("aria-posinset", String(block.first + k + 1));
      tile.setAttribute("aria-setsize", String(grid.total));
    }
  }
  for (const [i, tile] of tiles) {
    if (seen.has(i)) continue;
    tile.remove();
    tiles.delete(i);
  }
  for (const [id, head] of heads) {
    if (seenHeads.has(id)) continue;
    head.remove();
    heads.delete(id);
  }
  list.append(fresh);
  want(seen);
  refreshTiles();
}

/** @param {number} i */
function makeTile(i) {
  const pictures = store.state?.source.kind === "pictures";
  const tile = el("div", {
    class: pictures ? "tile" : "tile line",
    role: "option",
    id: `item-${i}`,
    "data-item": i,
    "aria-selected": "false",
  });
  const shown = face(i, grid.cellWidth * devicePixelRatio > 150 ? 256 : 128);
  if (pictures) shown.append(el("div", { class: "level" }, el("i")));
  tile.append(shown, el("div", { class: "caption" }), el("span", { class: "tick" }, icon("check")));
  draggable(tile, () => i);
  return tile;
}

function refreshTiles() {
  if (store.view !== "gallery") return;
  const named = !store.filter.grouped;
  const pictures = store.state?.source.kind === "pictures";
  for (const [i, tile] of tiles) {
    relabel(tile, i, named);
    tile.setAttribute("aria-selected", String(store.selection.has(i)));
    tile.classList.toggle("cursor", store.focus === i);
    const known = store.texts.get(i);
    if (known && !tile.title) {
      tile.title = known.reason ? `${known.id}: ${known.reason}` : known.id;
      if (!pictures) tile.querySelector(".sentence")?.replaceChildren(known.text ?? known.id);
    }
  }
  if (tiles.has(store.focus)) list.setAttribute("aria-activedescendant", `item-${store.focus}`);
  else list.removeAttribute("aria-activedescendant");
}

/** The item under the pointer, -1 for none. @param {MouseEvent} event */
function itemAt(event) {
  const tile = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".tile"));
  return tile ? Number(tile.dataset.item) : -1;
}

/** @param {MouseEvent} event */
function clicked(event) {
  const i = itemAt(event);
  if (i < 0) return;
  list.focus({ preventScroll: true });
  if (event.shiftKey && grid.rank(anchor) >= 0) return store.select(range(anchor, i), i);
  anchor = i;
  const chosen = new Set(store.selection);
  const alone = chosen.size === 1 && chosen.has(i);
  if (event.ctrlKey || event.metaKey || chosen.size > 1) {
    if (!chosen.delete(i)) chosen.add(i);
    store.select(chosen, i);
  } else store.select(alone ? [] : [i], i);
}

/** All items from one to the other, as they are shown. @param {number} one @param {number} other */
function range(one, other) {
  const [from, to] = [grid.rank(one), grid.rank(other)].sort((a, b) => a - b);
  return Array.from({ length: to - from + 1 }, (_, k) => grid.at(from + k));
}

/** @param {number} i */
function point(i) {
  store.focus = i;
  store.changed("focus");
  const span = grid.span(grid.rank(i));
  if (!span) return;
  if (span.top - grid.head < box.scrollTop) box.scrollTop = Math.max(0, span.top - grid.head - 8);
  else if (span.bottom > box.scrollTop + box.clientHeight) box.scrollTop = span.bottom - box.clientHeight + 8;
}

function firstSeen() {
  for (const { block, start, end } of grid.between(box.scrollTop + grid.head, box.scrollTop + box.clientHeight))
    if (end > start) return block.first + start;
  return 0;
}

/**
 * Keys of the gallery. Whether one was used.
 *
 * @param {KeyboardEvent} event
 */
export function galleryKey(event) {
  const rank = grid.rank(store.focus);
  const page = Math.max(1, Math.floor(box.clientHeight / grid.pitch)) * grid.columns;
  const now = rank < 0 ? firstSeen() : rank;
  const targets = {
    ArrowLeft: now - 1,
    ArrowRight: now + 1,
    ArrowUp: grid.vertical(now, -1),
    ArrowDown: grid.vertical(now, 1),
    Home: 0,
    End: grid.total - 1,
    PageUp: now - page,
    PageDown: now + page,
  };
  if (event.key in targets && grid.total) {
    const wanted = targets[/** @type {keyof typeof targets} */ (event.key)];
    const target = grid.at(
      rank < 0 && event.key.startsWith("Arrow") ? now : Math.max(0, Math.min(grid.total - 1, wanted)),
    );
    if (event.shiftKey) {
      if (grid.rank(anchor) < 0) anchor = store.focus;
      store.select(range(anchor, target));
    } else anchor = target;
    list.focus({ preventScroll: true });
    point(target);
    return true;
  }
  if (event.key === " " && rank >= 0) {
    const chosen = new Set(store.selection);
    if (!chosen.delete(store.focus)) chosen.add(store.focus);
    anchor = store.focus;
    store.select(chosen);
    return true;
  }
  return false;
}

/** Every item that is shown. */
export const shownItems = () => grid.blocks.flatMap((block) => [...block.items]);

/** After a label the cursor goes on to the next item, as it stood before. @param {number[]} labeled */
export function nextAfter(labeled) {
  if (labeled.length !== 1 || store.selection.size) return;
  const rank = grid.rank(labeled[0]);
  if (rank >= 0 && rank + 1 < grid.total) point(grid.at(rank + 1));
}
