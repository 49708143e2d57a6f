// @ts-check
/** The server's paths. Every failure becomes a Failure with one line for a person. */

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").Detail} Detail */
/** @typedef {import("./types.js").Action} Action */
/** @typedef {{ state: State, action: Action, imported?: number, kept?: number, notes?: string[] }} Done */

const PATIENCE = 60_000;

export class Failure extends Error {
  /** @param {string} message @param {number} status  0 where no answer came */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** @param {string} path @param {RequestInit} [options] */
async function ask(path, options = {}) {
  /** @type {Response} */
  let reply;
  try {
    reply = await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE), ...options });
  } catch {
    throw new Failure("The studio does not answer. Is it still running in the terminal?", 0);
  }
  if (reply.ok) return reply;
  if (reply.status === 401)
    throw new Failure("The token of this page is no longer valid. Open the address that the terminal shows.", 401);
  let detail = `The studio answered with an error (${reply.status}).`;
  try {
    const said = (await reply.json()).detail;
    if (typeof said === "string") detail = said;
    else if (Array.isArray(said) && said[0]?.msg) detail = String(said[0].msg);
  } catch {
    // The status says enough.
  }
  throw new Failure(detail, reply.status);
}

/** @param {string} path */
const read = async (path) => (await ask(path)).json();

/** @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<Done>} */
const send = async (method, path, body = {}) =>
  (await ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

export const api = {
  /** @returns {Promise<State>} */
  state: () => read("/api/state"),
  /** @param {string} query @returns {Promise<{ revision: number, total: number, items: Item[] }>} */
  items: (query) => read(`/api/items?${query}`),
  /** @param {number} index @returns {Promise<Detail>} */
  item: (index) => read(`/api/items/${index}`),
  /** @param {string} query @returns {Promise<{ revision: number, total: number, indices: number[] }>} */
  indices: (query) => read(`/api/indices?${query}`),
  /** @param {string} query @returns {Promise<{ total: number, groups: { total: number, confidence: number | null }[] }>} */
  groups: (query) => read(`/api/groups?${query}`),
  /** @returns {Promise<{ total: number, actions: Action[] }>} */
  history: () => read("/api/history?limit=200"),
  map: async () => new Float32Array(await (await ask("/api/map")).arrayBuffer()),
  labels: async () => (await ask("/api/map/labels")).arrayBuffer(),

  /** @param {number[]} items @param {{ class: number | null } | { name: string }} what */
  label: (items, what) => send("POST", "/api/label", { items, ...what }),
  /** @param {{ items: number[] } | { min_confidence: number, class?: number }} what */
  accept: (what) => send("POST", "/api/accept", what),
  /** @param {string} name */
  addClass: (name) => send("POST", "/api/classes", { name }),
  /** @param {string} text */
  nameClasses: (text) => send("POST", "/api/names", { text }),
  /** @param {number} id @param {string} name */
  renameClass: (id, name) => send("PATCH", `/api/classes/${id}`, { name }),
  /** @param {number} id @param {number} into */
  mergeClass: (id, into) => send("POST", `/api/classes/${id}/merge`, { into }),
  /** @param {number} id */
  deleteClass: (id) => send("DELETE", `/api/classes/${id}`),
  freeOfFolders: () => send("DELETE", "/api/folder-labels"),
  /** @param {number} [steps] */
  undo: (steps = 1) => send("POST", "/api/undo", { steps }),
  /** @param {number} [steps] */
  redo: (steps = 1) => send("POST", "/api/redo", { steps }),
  /** @param {File} file @param {boolean} replace @returns {Promise<Done>} */
  importLabels: async (file, replace) => {
    const query = new URLSearchParams({ name: file.name, replace: String(replace) });
    const headers = { "Content-Type": "application/octet-stream" };
    return (await ask(`/api/import?${query}`, { method: "POST", headers, body: file })).json();
  },
};

/**
 * Pictures are kept by the browser under the key of this run of the studio.
 *
 * @param {number} index
 * @param {64 | 128 | 256 | 512} size
 * @param {string} key
 */
export const thumbnail = (index, size, key) => `/api/items/${index}/thumbnail?size=${size}&v=${key}`;

/** @param {number} index @param {string} key */
export const picture = (index, key) => `/api/items/${index}/picture?v=${key}`;

/**
 * Listen to the server for as long as the page lives.
 *
 * @param {(state: State) => void} heard
 * @param {(connected: boolean, trouble?: string) => void} connection
 */
export function listen(heard, connection) {
  /** @type {EventSource} */
  let events;
  const open = () => {
    events = new EventSource("/api/events");
    events.addEventListener("state", (event) => {
      connection(true);
      heard(JSON.parse(event.data));
    });
    events.addEventListener("bye", () => connection(false));
    events.addEventListener("error", () => {
      connection(false);
      // A lost server is tried again by the browser itself; a refusal closes for good, and another request tells why.
      if (events.readyState !== EventSource.CLOSED) return;
      api.state().catch((failure) => connection(false, failure.status ? failure.message : ""));
      setTimeout(open, 3000);
    });
  };
  open();
}
