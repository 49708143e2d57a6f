// @ts-check
/** What the page knows, in one place. Parts of the page listen to the topics they show. */

import { FLAG, ORIGIN } from "./order.js";

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").ClassInfo} ClassInfo */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./order.js").Columns} Columns */
/** @typedef {import("./order.js").Filter} Filter */
/** @typedef {"label" | "gallery" | "map" | "classes"} View */
/**
 * @typedef {"state" | "columns" | "places" | "queue" | "texts" | "selection" | "focus" | "filter" | "view" | "connection" | "theme" | "undone" | "desk"} Topic
 */

/** @type {Filter} */
export const EVERYTHING = Object.freeze({
  pick: "all",
  only: null,
  low: 0,
  high: 1,
  found: null,
  sort: "sure",
  grouped: true,
});

class Store {
  /** @type {State | null} */
  state = null;
  /** @type {Columns} */
  columns = noColumns(0);
  /** Revision of the server's view that the columns show, or a later one; -1 for none. */
  shown = -1;
  /** @type {Float32Array | null}  x and y of each item, in turn */
  places = null;
  /** @type {number[]}  what to label next */
  queue = [];
  /** @type {Map<number, number>}  rank of items that fit nowhere */
  mostNovel = new Map();
  /** @type {Map<number, number>}  the class that the neighbors of a disputed item prefer */
  disputes = new Map();
  /** @type {Map<number, { id: string, text: string | null, reason: string | null }>}  of items that were shown */
  texts = new Map();
  /** @type {Set<number>} */
  selection = new Set();
  /** @type {number}  item under the cursor of the keyboard, -1 for none */
  focus = -1;
  /** @type {View} */
  view = "label";
  /** @type {Filter} */
  filter = { ...EVERYTHING };
  search = "";
  connected = true;
  /** @type {string}  why there is no connection */
  trouble = "";
  /** @type {Map<number, { id: number, origin: number, until: number }>}  labels that the server may not show yet */
  #foreseen = new Map();
  /** @type {Map<Topic, Set<() => void>>} */
  #listeners = new Map();
  /** @type {Set<Topic>} */
  #pending = new Set();

  /** @param {Topic[]} topics @param {() => void} listener */
  on(topics, listener) {
    for (const topic of topics) {
      const known = this.#listeners.get(topic) ?? new Set();
      this.#listeners.set(topic, known.add(listener));
    }
  }

  /** Tell the listeners of these topics, each once, when the present task is done. @param {...Topic} topics */
  changed(...topics) {
    if (!this.#pending.size) queueMicrotask(() => this.#tell());
    for (const topic of topics) this.#pending.add(topic);
  }

  #tell() {
    const told = new Set([...this.#pending].flatMap((topic) => [...(this.#listeners.get(topic) ?? [])]));
    this.#pending.clear();
    for (const listener of told) listener();
  }

  /** @returns {ClassInfo[]} */
  get classes() {
    return this.state?.classes ?? [];
  }

  get total() {
    return this.state?.source.total ?? 0;
  }

  /** @param {number | null | undefined} id */
  classOf(id) {
    return this.classes.find((known) => known.id === id) ?? null;
  }

  /** What the items are called. @param {number} n */
  noun(n) {
    const one = { pictures: "picture", texts: "text", vectors: "row" }[this.state?.source.kind ?? "vectors"];
    return n === 1 ? one : `${one}s`;
  }

  /** @param {Iterable<number>} items @param {number} [focus] */
  select(items, focus) {
    this.selection = new Set(items);
    if (focus !== undefined) this.focus = focus;
    this.changed("selection", "focus");
  }

  /** @param {Partial<Filter>} part */
  show(part) {
    this.filter = { ...this.filter, ...part };
    this.changed("filter");
  }

  /** @param {View} view */
  look(view) {
    if (view === this.view) return;
    this.view = view;
    // What the keys would act on is always in sight: each view has to point anew.
    this.focus = -1;
    this.changed("view", "focus");
  }

  /** What keys and buttons act on: the selection, or else the item under the cursor. @returns {number[]} */
  get aim() {
    if (this.selection.size) return [...this.selection];
    return this.focus >= 0 ? [this.focus] : [];
  }

  /**
   * Show labels before the server has confirmed them.
   *
   * @param {number[]} items
   * @param {(item: number) => number} label  id of a class, -1 for none
   * @param {number} [origin]  of ORIGIN
   */
  foresee(items, label, origin = ORIGIN.given) {
    for (const i of items) this.#foreseen.set(i, { id: label(i), origin, until: Infinity });
    this.#overlay();
    this.changed("columns");
  }

  /**
   * Labels that were foreseen hold until the server shows this version; null if they were refused.
   *
   * @param {number[]} items
   * @param {number | null} version
   */
  settleForeseen(items, version) {
    for (const i of items) {
      const mine = this.#foreseen.get(i);
      if (version === null) this.#foreseen.delete(i);
      else if (mine) mine.until = version;
    }
  }

  /** What the server shows of a version. @param {Columns} columns @param {number} version */
  receive(columns, version) {
    for (const [i, { until }] of this.#foreseen) if (until <= version) this.#foreseen.delete(i);
    this.columns = columns;
    this.#overlay();
    this.changed("columns");
  }

  #overlay() {
    const { classes, origins, confidence, flags } = this.columns;
    for (const [i, { id, origin }] of this.#foreseen) {
      classes[i] = id;
      origins[i] = id < 0 ? ORIGIN.unlabeled : origin;
      if (origin === ORIGIN.given) confidence[i] = id < 0 ? NaN : 1;
      flags[i] &= ~FLAG.disputed;
    }
  }
}

/** @param {number} n @returns {Columns} */
function noColumns(n) {
  const confidence = new Float32Array(n).fill(NaN);
  return { n, classes: new Int32Array(n).fill(-1), confidence, origins: new Uint8Array(n), flags: new Uint8Array(n) };
}

/**
 * Columns as the server packs them: int32 class ids, float32 confidence, uint8 origins, uint8 flags.
 *
 * @param {ArrayBuffer} packed
 * @returns {Columns}
 */
export function unpack(packed) {
  const n = packed.byteLength / 10;
  return {
    n,
    classes: new Int32Array(packed, 0, n),
    confidence: new Float32Array(packed, 4 * n, n),
    origins: new Uint8Array(packed, 8 * n, n),
    flags: new Uint8Array(packed, 9 * n, n),
  };
}

export const store = new Store();
