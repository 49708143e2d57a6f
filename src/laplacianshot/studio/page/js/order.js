// @ts-check
/** Which items are shown, in which order and in which groups. Numbers in, numbers out: no page, no server. */

/** Where a label comes from, as the server numbers it. */
export const ORIGIN = Object.freeze({ waiting: 0, unlabeled: 1, predicted: 2, given: 3, failed: 4, accepted: 5 });

/** Whether a label was given by a person or accepted, so that it can be removed. @param {number} origin */
export const isKept = (origin) => origin === ORIGIN.given || origin === ORIGIN.accepted;

/** Whether a label is a prediction that a person may confirm. @param {number} origin */
export const isOpen = (origin) => origin === ORIGIN.predicted || origin === ORIGIN.accepted;

export const FLAG = Object.freeze({ disputed: 1, novel: 2 });

/**
 * What is known of all n items, one column a property.
 *
 * @typedef {object} Columns
 * @property {number} n
 * @property {Int32Array} classes      id of the class, -1 for none
 * @property {Float32Array} confidence between 0 and 1, NaN without a label
 * @property {Uint8Array} origins      of ORIGIN
 * @property {Uint8Array} flags        of FLAG
 */

/**
 * @typedef {"all" | "given" | "accepted" | "predicted" | "unlabeled" | "disputed" | "novel" | "unsure"} Pick
 * @typedef {"sure" | "unsure" | "novel" | "source"} Sorting
 * @typedef {object} Filter
 * @property {Pick} pick
 * @property {number | null} only    id of the one class that is shown, -1 for what has none; null for all
 * @property {number} low            least confidence
 * @property {number} high           largest confidence
 * @property {Uint8Array | null} found  1 for items that a search has found; null without a search
 * @property {Sorting} sort
 * @property {boolean} grouped
 */

/**
 * @typedef {{ id: number | null, items: Int32Array }} Group  id of a class, -1 for what has none; null where items are not grouped
 */

/** Below this a predicted label is called unsure. */
const UNSURE = 0.6;

/** @param {Columns} columns @param {Filter} filter @param {number} i */
function passes(columns, filter, i) {
  const origin = columns.origins[i];
  if (filter.only !== null && columns.classes[i] !== filter.only) return false;
  if (filter.found && !filter.found[i]) return false;
  if (!picked(columns, filter.pick, i, origin)) return false;
  if (filter.low <= 0 && filter.high >= 1) return true;
  // NaN, for no confidence, is in no range.
  return columns.confidence[i] >= filter.low && columns.confidence[i] <= filter.high;
}

/** @param {Columns} columns @param {Pick} pick @param {number} i @param {number} origin */
function picked(columns, pick, i, origin) {
  if (pick === "all") return true;
  if (pick === "given") return origin === ORIGIN.given;
  if (pick === "accepted") return origin === ORIGIN.accepted;
  if (pick === "predicted") return origin === ORIGIN.predicted;
  if (pick === "unlabeled") return columns.classes[i] < 0;
  if (pick === "disputed") return (columns.flags[i] & FLAG.disputed) !== 0;
  if (pick === "novel") return (columns.flags[i] & FLAG.novel) !== 0;
  return origin === ORIGIN.predicted && columns.confidence[i] < UNSURE;
}

/**
 * Items that pass the filter, sorted; one group a class in the order of the classes, what has none last.
 *
 * @param {Columns} columns
 * @param {Filter} filter
 * @param {number[]} order             ids of the classes
 * @param {Map<number, number>} mostNovel  rank of items that fit nowhere
 * @returns {Group[]}
 */
export function arrange(columns, filter, order, mostNovel) {
  const items = new Int32Array(columns.n);
  let kept = 0;
  for (let i = 0; i < columns.n; i++) if (passes(columns, filter, i)) items[kept++] = i;
  const shown = items.subarray(0, kept);
  const rank = ranking(columns, filter, mostNovel);
  // Of equals the first in the source stays first.
  if (rank) shown.sort((a, b) => rank[a] - rank[b] || a - b);
  if (!filter.grouped) return kept ? [{ id: null, items: shown }] : [];
  /** @type {Map<number, number[]>} */
  const groups = new Map([...order, -1].map((id) => [id, []]));
  for (const i of shown) (groups.get(columns.classes[i]) ?? groups.get(-1))?.push(i);
  return [...groups]
    .filter(([, members]) => members.length)
    .map(([id, members]) => ({ id, items: Int32Array.from(members) }));
}

/**
 * A number for each item, the smallest first; null to keep the order of the source.
 *
 * @param {Columns} columns
 * @param {Filter} filter
 * @param {Map<number, number>} mostNovel
 */
function ranking(columns, filter, mostNovel) {
  if (filter.sort === "source") return null;
  const rank = new Float64Array(columns.n);
  const sign = filter.sort === "sure" ? -1 : 1;
  for (let i = 0; i < columns.n; i++) {
    // Given labels come first of all, items without a label last.
    const said = columns.origins[i] === ORIGIN.given ? 2 : 0;
    rank[i] = sign * ((columns.confidence[i] || 0) + said);
  }
  if (filter.sort === "novel") for (const [i, place] of mostNovel) rank[i] = place - 1e9;
  return rank;
}

/**
 * How many items each class has, given and predicted (accepted or not), and the sum of the confidence of the predicted
 * ones; how many labels are accepted, and how many of these are expected to be wrong.
 *
 * @typedef {{ given: number, predicted: number, sum: number }} Tally
 * @param {Columns} columns
 * @returns {{ classes: Map<number, Tally>, unsure: number, accepted: number, wrong: number }}
 */
export function tally(columns) {
  /** @type {Map<number, Tally>} */
  const classes = new Map();
  let [unsure, accepted, wrong] = [0, 0, 0];
  for (let i = 0; i < columns.n; i++) {
    const [id, origin] = [columns.classes[i], columns.origins[i]];
    if (id < 0) continue;
    let mine = classes.get(id);
    if (!mine) classes.set(id, (mine = { given: 0, predicted: 0, sum: 0 }));
    if (origin === ORIGIN.given) mine.given++;
    else {
      mine.predicted++;
      mine.sum += columns.confidence[i] || 0;
      if (origin === ORIGIN.accepted) {
        accepted++;
        // NaN where the class has no label any more: nothing speaks for it.
        wrong += 1 - (columns.confidence[i] || 0);
      } else if (columns.confidence[i] < UNSURE) unsure++;
    }
  }
  return { classes, unsure, accepted, wrong };
}

/**
 * Points within a polygon, by the number of its sides that a ray to the right meets.
 *
 * @param {ArrayLike<number>} xs
 * @param {ArrayLike<number>} ys
 * @param {[number, number][]} polygon
 * @returns {number[]}
 */
export function inside(xs, ys, polygon) {
  if (polygon.length < 3) return [];
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of polygon) {
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  const found = [];
  for (let i = 0; i < xs.length; i++) {
    const [x, y] = [xs[i], ys[i]];
    if (!(x >= left && x <= right && y >= top && y <= bottom)) continue;
    let odd = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [ax, ay] = polygon[a];
      const [bx, by] = polygon[b];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
    }
    if (odd) found.push(i);
  }
  return found;
}
