// @ts-check
/** Keeps the store in step with the server: each event names a revision, and what is older is fetched again. */

import { api, listen } from "./api.js";
import { handFree } from "./hand.js";
import { store, unpack } from "./store.js";

/** @typedef {import("./types.js").State} State */

/** Items asked for in one request. */
const BATCH = 200;

let placesOf = -1;

/**
 * One run at a time; asked again while it runs, it runs once more.
 *
 * @param {() => Promise<void>} work
 */
function oneAtATime(work) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await work();
      }
    } catch {
      // The connection's own listener tells the user; the next event asks again.
      store.shown = -1;
    } finally {
      running = false;
    }
  };
}

export const refresh = oneAtATime(async () => {
  const revision = store.state?.revision ?? -1;
  const version = store.state?.predicted ?? -1;
  const [labels, queue, novel, disputed] = await Promise.all([
    api.labels(),
    api.items("only=suggested&sort=suggestion&limit=100"),
    store.state?.counts.novel ? api.indices("only=novel&sort=-novelty") : { indices: [] },
    store.state?.counts.disputed ? api.items("only=disputed&limit=500") : { items: [] },
  ]);
  await handFree();
  store.shown = revision;
  store.queue = queue.items.map((item) => item.index);
  store.mostNovel = new Map(novel.indices.map((item, rank) => [item, rank]));
  store.disputes = new Map(disputed.items.map((item) => [item.index, item.dispute ?? -1]));
  for (const item of [...queue.items, ...disputed.items]) keep(item);
  store.receive(unpack(labels), version);
  store.changed("queue");
});

const refreshPlaces = oneAtATime(async () => {
  const revision = store.state?.map.revision ?? -1;
  const places = await api.map();
  await handFree();
  store.places = places;
  placesOf = revision;
  store.changed("places");
});

// After a break the next state is taken whatever its numbers: a server that was started anew counts from the beginning.
let trusting = true;

/** @param {State} state */
export async function learn(state) {
  await handFree();
  const old = store.state;
  const older =
    old && (state.version < old.version || (state.version === old.version && state.revision < old.revision));
  // An answer may be overtaken by an event.
  if (older && !trusting) return;
  trusting = false;
  store.state = state;
  store.changed("state");
  const { only } = store.filter;
  if (only !== null && only >= 0 && !store.classOf(only)) store.show({ only: null });
  if (state.revision !== store.shown) refresh();
  if (state.map.ready && state.map.revision !== placesOf) refreshPlaces();
}

export function connect() {
  listen(learn, (connected, trouble = "") => {
    if (connected === store.connected && trouble === store.trouble) return;
    store.trouble = trouble;
    store.connected = connected;
    if (connected) {
      trusting = true;
      store.shown = placesOf = -1;
    }
    store.changed("connection");
  });
}

/** @param {import("./types.js").Item} item */
function keep(item) {
  if (!store.texts.has(item.index)) store.texts.set(item.index, { id: item.id, text: item.text, reason: item.reason });
}

/** @type {Set<number>} */
const wanted = new Set();
/** @type {Set<number>} */
const asked = new Set();
let waiting = false;

/** Have the names and texts of these items fetched, if they are not known. @param {Iterable<number>} items */
export function want(items) {
  for (const i of items) if (!store.texts.has(i) && !asked.has(i)) wanted.add(i);
  if (!wanted.size || waiting) return;
  waiting = true;
  // What is scrolled past within a blink is not worth a request.
  setTimeout(fetchTexts, 60);
}

async function fetchTexts() {
  waiting = false;
  // The last that were wanted are those on the screen.
  const batch = [...wanted].slice(-BATCH);
  wanted.clear();
  batch.forEach((i) => asked.add(i));
  try {
    const query = new URLSearchParams([...batch.map((i) => ["index", String(i)]), ["limit", String(BATCH)]]);
    const { items } = await api.items(query.toString());
    await handFree();
    items.forEach(keep);
    store.changed("texts");
  } catch {
    // Asked again when they are next shown.
  } finally {
    batch.forEach((i) => asked.delete(i));
  }
}
