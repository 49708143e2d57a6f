// @ts-check
/** Which item lies on the desk to be labeled, what was there before, and what comes next. Tells the topic "desk". */

import { accept, labelAs } from "./actions.js";
import { isKept, isOpen, ORIGIN } from "./order.js";
import { store } from "./store.js";
import { about, nameOf } from "./tiles.js";
import { say } from "./toast.js";

let current = -1;
/** @type {number[]}  items that were shown, for going back */
const trail = [];
/** @type {Set<number>}  items that were passed over */
const skipped = new Set();
/** @type {Set<number>}  items whose labels are on their way */
const busy = new Set();
let stopgap = false; // on the desk for want of a queue
let returning = false; // a label was undone, and its item may come back

/** The item on the desk, -1 for none. */
export const onDesk = () => current;

export const canGoBack = () => trail.length > 0;

export function buildDesk() {
  store.on(["state", "queue", "columns"], settle);
  store.on(["undone"], () => {
    returning = true;
  });
  store.on(["view"], () => {
    if (store.view !== "label") return;
    store.focus = current;
    store.changed("focus", "desk");
  });
}

/** Items that may be asked about, the most useful first. */
export function line() {
  const open = (/** @type {number} */ i) =>
    store.columns.origins[i] !== ORIGIN.given && store.columns.origins[i] !== ORIGIN.failed;
  const queue = store.queue.filter((i) => open(i) && !busy.has(i));
  const fresh = queue.filter((i) => !skipped.has(i));
  return fresh.length ? fresh : queue;
}

/** Have an item on the desk. What lies there stays until it is labeled or passed over. */
function settle() {
  if (!store.columns.n) return;
  const last = trail[trail.length - 1];
  if (returning && last !== undefined && !skipped.has(last) && store.columns.origins[last] !== ORIGIN.given) {
    returning = false;
    previous();
  } else if (current < 0 || current >= store.columns.n || (stopgap && !trail.length && store.queue.length)) {
    const [first] = line();
    stopgap = first === undefined;
    go(first ?? fallback());
  }
}

/** Without suggestions: the lowest confidence; without predictions: items from all over the source. */
function fallback() {
  const { columns } = store;
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < columns.n; i++) {
    if (isKept(columns.origins[i]) || columns.origins[i] === ORIGIN.failed || skipped.has(i) || busy.has(i))
      continue;
    // Multiples of the golden ratio never come near one another: sources are often sorted.
    const sure = Number.isNaN(columns.confidence[i]) ? 2 + ((i * 0.6180339887) % 1) : columns.confidence[i];
    if (sure < least) [best, least] = [i, sure];
  }
  return best;
}

/** Have a certain item on the desk now. @param {number} item */
export function take(item) {
  if (current >= 0) trail.push(current);
  go(item);
}

/** Have an item of another view on the desk, and look at it there. @param {number} item */
export function lookCloser(item) {
  store.select([]);
  take(item);
  store.look("label");
}

/** @param {number} item */
function go(item) {
  current = item;
  store.focus = item;
  store.changed("focus", "desk");
  if (item >= 0 && store.view === "label") say(`Next: ${nameOf(item)}: ${about(item)}`);
}

/**
 * Go on while an item is being labeled; it comes back if that fails.
 *
 * @param {number} item
 * @param {Promise<unknown>} work
 */
export async function goOn(item, work) {
  busy.add(item);
  advance(item);
  const done = await work;
  busy.delete(item);
  if (!done) take(item);
  return done;
}

/** @param {number} labeled */
function advance(labeled) {
  if (labeled !== current) return;
  returning = false;
  trail.push(labeled);
  skipped.delete(labeled);
  const [first] = line().filter((i) => i !== labeled);
  go(first ?? fallback());
}

/** Label the item on the desk. @param {number} id */
export function decide(id) {
  if (current < 0) return;
  goOn(current, labelAs([current], id));
}

/** Accept what the graph says of it. */
export function confirm() {
  if (current < 0) return;
  if (!isOpen(store.columns.origins[current])) return skip();
  goOn(current, accept([current]));
}

export function skip() {
  if (current < 0) return;
  trail.push(current);
  skipped.add(current);
  const [first] = line().filter((i) => i !== current);
  go(first ?? fallback());
}

export function previous() {
  const item = trail.pop();
  if (item !== undefined) go(item);
}
