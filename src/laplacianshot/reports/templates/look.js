// @ts-check
/** A closer look at one item of a label report: its picture or text, its path, its likely classes and its neighbors. */

/** @typedef {{ name: string, text?: string, says: [string, string, string, string][] }} Facts */
/**
 * @typedef {object} LookData
 * @property {Record<string, Facts>} items
 * @property {Record<string, number[]>} near  nearest items of those on the page
 * @property {Record<string, string>} large  pictures, as data
 * @property {Record<string, number>} cells  place of items on the sheet of the map
 * @property {number[]} [positions]  the item of each point of a map that shows only some
 */

function buildLook() {
  const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
  const dialog = /** @type {HTMLDialogElement} */ (byId("look"));
  /** @type {LookData} */
  const data = JSON.parse(byId("look-data").textContent ?? "");
  const map = document.getElementById("map-data");
  /** @type {{ src: string, columns: number, cell: number, sizes: number[] } | undefined} */
  const sheet = map ? JSON.parse(map.textContent ?? "").sheet : undefined;
  const sheetImage = new Image();
  if (sheet) sheetImage.src = sheet.src;
  const buttons = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-look]")]);
  // Items in the order of the page, each once.
  const order = [...new Set(buttons.map((button) => Number(button.dataset.look)))];
  /** @type {number[]}  items that were shown before, for going back */
  let trail = [];
  let shown = -1;

  /** @param {string} tag @param {string} className @param {string} [text] */
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  /** A name that may be broken between its words, as in the lists. @param {string} text */
  const breakable = (text) => {
    const name = make("bdi", "");
    for (const part of text.split(/(?<=[/_.-])/)) name.append(part, document.createElement("wbr"));
    return name;
  };

  /** A picture of the sheet. @param {number} item @param {number} side */
  function small(item, side) {
    const place = data.cells[item];
    if (place === undefined || !sheet) return null;
    const canvas = document.createElement("canvas");
    const [w, h] = [sheet.sizes[2 * place], sheet.sizes[2 * place + 1]];
    [canvas.width, canvas.height] = [w, h];
    const scale = side / Math.max(w, h);
    canvas.style.width = `${w * scale}px`;
    canvas.style.height = `${h * scale}px`;
    if (sheet.cell < 48) canvas.style.imageRendering = "pixelated";
    const { columns, cell } = sheet;
    const paint = () =>
      canvas
        .getContext("2d")
        ?.drawImage(sheetImage, (place % columns) * cell, Math.floor(place / columns) * cell, w, h, 0, 0, w, h);
    if (sheetImage.complete) paint();
    else sheetImage.addEventListener("load", paint, { once: true });
    return canvas;
  }

  /** The picture of an item as large as it is known. @param {number} item @param {string} name */
  function picture(item, name) {
    const card = /** @type {HTMLImageElement | null} */ (document.querySelector(`[data-look="${item}"] img`));
    const src = data.large[item] ?? card?.src;
    if (!src) return small(item, 256);
    const image = document.createElement("img");
    image.src = src;
    image.alt = name;
    if (card?.classList.contains("tiny")) image.className = "tiny";
    return image;
  }

  /** @param {Facts["says"]} says @param {number} [most] */
  function labels(says, most = says.length) {
    return says.slice(0, most).map(([name, share, light, dark]) => {
      const entry = make("p", "says");
      const dot = make("i", "dot");
      dot.style.setProperty("--l", light);
      dot.style.setProperty("--d", dark);
      entry.append(dot, breakable(name), ...(share ? [make("b", "", share)] : []));
      return entry;
    });
  }

  /** @param {number} item */
  function show(item) {
    const facts = data.items[item];
    if (!facts) return;
    shown = item;
    const stage = byId("look-stage");
    const face = picture(item, facts.name);
    const text = facts.text === undefined ? [] : [make("p", "reading", facts.text)];
    stage.replaceChildren(...(face ? [face] : []), ...text);
    byId("look-name").replaceChildren(breakable(facts.name));
    byId("look-says").replaceChildren(...labels(facts.says));
    const near = (data.near[item] ?? []).filter((other) => data.items[other]);
    byId("look-near-title").hidden = !near.length;
    byId("look-near").replaceChildren(
      ...near.map((other) => {
        const button = /** @type {HTMLButtonElement} */ (make("button", "near"));
        button.type = "button";
        const their = data.items[other];
        button.title = their.name;
        const tiny = small(other, 72);
        const what = their.text === undefined ? (tiny ? [] : [make("span", "words", their.name)]) : [make("span", "words", their.text)];
        button.append(...(tiny ? [tiny] : []), ...what, ...labels(their.says, 1));
        button.setAttribute("aria-label", `Neighbor ${their.name}: ${their.says.map(([name, share]) => `${name} ${share}`)[0] ?? "no label"}`);
        button.addEventListener("click", () => {
          trail.push(item);
          show(other);
          byId("look-close").focus();
        });
        const entry = document.createElement("li");
        entry.append(button);
        return entry;
      }),
    );
    const place = order.indexOf(item);
    /** @type {HTMLButtonElement} */ (byId("look-before")).disabled = !trail.length && place <= 0;
    /** @type {HTMLButtonElement} */ (byId("look-after")).disabled = place < 0 || place === order.length - 1;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  /** @param {number} item */
  function open(item) {
    trail = [];
    show(item);
  }

  /** To the item before: the one that was looked at, or else of the page. */
  function before() {
    const last = trail.pop();
    if (last !== undefined) show(last);
    else if (order.indexOf(shown) > 0) show(order[order.indexOf(shown) - 1]);
  }

  function after() {
    const place = order.indexOf(shown);
    if (place < 0 || place + 1 >= order.length) return;
    trail = [];
    show(order[place + 1]);
  }

  for (const button of buttons) button.addEventListener("click", () => open(Number(button.dataset.look)));
  byId("look-before").addEventListener("click", before);
  byId("look-after").addEventListener("click", after);
  byId("look-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") before();
    else if (event.key === "ArrowRight") after();
    else return;
    event.preventDefault();
  });
  document.addEventListener("look", (event) => {
    const point = /** @type {CustomEvent<number>} */ (event).detail;
    open(data.positions ? data.positions[point] : point);
  });
}

buildLook();
