// @ts-check
/** The bar on top: undo and redo, history, import and export, theme, keys; and what is wrong or under way. */

import { importLabels, redo, undo } from "./actions.js";
import { isDark, setTheme, theme } from "./color.js";
import { confirmed, menu, shown } from "./dialogs.js";
import { byId, count, counted, el, icon, words } from "./dom.js";
import { openHistory } from "./history.js";
import { store } from "./store.js";

/** @type {[string, string, string][]} */
const FORMATS = [
  ["csv", "CSV table", "id, label, confidence, origin, suggestion"],
  ["jsonl", "JSON lines", "the same, one object per line"],
  ["parquet", "Parquet", "the same, for large tables"],
  ["label-studio", "Label Studio tasks", "labels as annotations, the rest as predictions"],
  ["label-studio-interface", "Label Studio interface", "the labeling form for these tasks"],
  ["model", "Model", "for new items: laplacianshot predict and serve"],
];
const KEYS = [
  ["Everywhere"],
  ["1 \u2026 9", "label with the class of that number"],
  ["c", "type a class name to label with"],
  ["n", "new class"],
  ["Ctrl+Z Ctrl+Shift+Z", "undo, redo"],
  ["l g m", "label view, gallery, map"],
  ["/", "search"],
  ["Esc", "clear the selection"],
  ["Label"],
  ["space", "confirm the predicted label"],
  ["\u2190 \u2192", "back, skip"],
  ["Gallery and map"],
  ["arrows", "go from item to item; with Shift, select"],
  ["space", "select or deselect"],
  ["Enter", "open in the label view"],
  ["Ctrl+A", "select all items shown"],
  ["a", "accept the predicted labels; of one item, confirm it"],
  ["Delete", "remove the given and accepted labels"],
  ["+ \u2212 0", "zoom the map, show all"],
];

/**
 * @param {Parameters<typeof icon>[0]} sign
 * @param {string} text
 * @param {(event: MouseEvent) => void} act
 * @param {Record<string, unknown>} [more]
 */
const tool = (sign, text, act, more = {}) =>
  el("button", { class: "bare", type: "button", title: text, "aria-label": text, onclick: act, ...more }, icon(sign));

const undoButton = tool("undo", "Undo", () => undo(), { id: "undo", disabled: true });
const redoButton = tool("redo", "Redo", () => redo(), { id: "redo", disabled: true });
const themeButton = tool("auto", "Theme", () => openThemes(), {
  "aria-haspopup": "menu",
  class: "bare wide",
  id: "theme",
});
const exportButton = el(
  "button",
  { class: "primary", type: "button", id: "export", "aria-haspopup": "menu", onclick: () => openExport() },
  icon("down"),
  el("span", {}, "Export"),
);

export function buildTools() {
  byId("tools").append(
    undoButton,
    redoButton,
    tool("history", "History", openHistory, { id: "history" }),
    el("span", { class: "gap" }),
    themeButton,
    tool("keys", "Keyboard shortcuts", openKeys, { id: "keys", class: "bare wide" }),
    tool("up", "Import labels", openImport, { id: "import", class: "bare wide" }),
    exportButton,
  );
  store.on(["state"], showState);
  store.on(["state", "connection"], showBanner);
  store.on(["theme"], showTheme);
  showTheme();
}

function showState() {
  const { state } = store;
  if (!state) return;
  const { source, embedding } = state;
  document.title = `${source.name} \u00b7 Studio`;
  byId("source").replaceChildren(words(source.name), ` \u00b7 ${count(source.total)} ${store.noun(source.total)}`);
  for (const [button, action, name] of /** @type {const} */ ([
    [undoButton, state.undo, "Undo"],
    [redoButton, state.redo, "Redo"],
  ])) {
    button.disabled = !action;
    button.title = action ? `${name}: ${action.summary}` : `Nothing to ${name.toLowerCase()}`;
    button.setAttribute("aria-label", button.title);
  }
  const under = byId("embedding");
  under.hidden = embedding.finished;
  const bar = /** @type {HTMLProgressElement} */ (byId("embedding-bar"));
  bar.value = embedding.total ? embedding.done / embedding.total : 0;
  const failed = embedding.failed ? ` ${counted(embedding.failed, "item")} could not be read.` : "";
  byId("embedding-text").textContent =
    `Reading ${store.noun(2)}: ${count(embedding.done)} of ${count(embedding.total)}.${failed}${embedding.done ? " You can start labeling now." : ""}`;
}

function showBanner() {
  const banner = byId("banner");
  const problem = store.state?.embedding.problem;
  banner.hidden = store.connected && !problem;
  if (!store.connected)
    banner.replaceChildren(
      icon("alert"),
      el(
        "p",
        {},
        ...(store.trouble
          ? [store.trouble]
          : [
              el("b", {}, "The studio does not answer. "),
              "Your labels are saved. Trying to reconnect. If the studio was stopped, start it again in the terminal and open the address it shows.",
            ]),
      ),
    );
  else if (problem) banner.replaceChildren(icon("alert"), el("p", { dir: "auto" }, problem));
}

function showTheme() {
  const sign = { system: "auto", light: "sun", dark: "moon" }[theme()];
  themeButton.replaceChildren(icon(/** @type {"auto" | "sun" | "moon"} */ (sign)));
  document.querySelector('meta[name="color-scheme"]')?.setAttribute("content", isDark() ? "dark" : "light");
}

function openThemes() {
  const entry = (
    /** @type {import("./color.js").Theme} */ name,
    /** @type {"auto" | "sun" | "moon"} */ sign,
    /** @type {string} */ text,
  ) => el("button", { type: "button", onclick: () => setTheme(name) }, icon(sign), text);
  menu(themeButton, "Theme", [
    entry("system", "auto", "Same as system"),
    entry("light", "sun", "Light"),
    entry("dark", "moon", "Dark"),
  ]);
}

function openExport() {
  const link = (/** @type {[string, string, string]} */ [format, name, text]) =>
    el(
      "a",
      { href: `/api/export?format=${format}`, download: "", "data-format": format },
      el("span", {}, name, el("small", {}, text)),
    );
  const narrow = matchMedia("(max-width: 47rem)").matches;
  const more = [
    el("hr"),
    el("button", { type: "button", onclick: openImport }, icon("up"), "Import labels\u2026"),
    el(
      "button",
      { type: "button", onclick: () => setTheme(isDark() ? "light" : "dark") },
      icon(isDark() ? "sun" : "moon"),
      isDark() ? "Light" : "Dark",
    ),
  ];
  menu(exportButton, "Export", [...FORMATS.map(link), ...(narrow ? more : [])]);
}

async function openImport() {
  const file = el("input", {
    type: "file",
    id: "import-file",
    accept: ".csv,.tsv,.jsonl,.json,.parquet",
    required: true,
  });
  const replace = el("input", { type: "checkbox", id: "import-replace" });
  const agreed = await confirmed(
    "Import labels",
    [
      el(
        "p",
        { class: "quiet" },
        "A table with the columns id and label (.csv, .tsv, .jsonl, .parquet), or a Label Studio export (.json).",
      ),
      el("label", { class: "field" }, el("span", { class: "unseen" }, "File"), file),
      el("label", { class: "choice-line" }, replace, " Replace labels that items already have"),
    ],
    { yes: "Import" },
  );
  const chosen = file.files?.[0];
  if (!agreed || !chosen) return;
  const done = await importLabels(chosen, replace.checked);
  if (done?.notes?.length)
    shown("Imported, with notes", el("ul", {}, ...done.notes.map((note) => el("li", { dir: "auto" }, note))));
}

export function openKeys() {
  const entries = KEYS.flatMap(([key, text]) =>
    text
      ? [
          el("dt", {}, ...key.split(" ").map((one) => (one === "\u2026" ? "\u2026" : el("kbd", {}, one)))),
          el("dd", {}, text),
        ]
      : [el("h3", {}, key)],
  );
  shown("Keyboard shortcuts", el("dl", { class: "shortcuts" }, ...entries));
}
