"use strict";
// The map of a page of labels: draws the data of #map-data on #map-canvas and says what is pointed at.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("map-data").textContent);
  const unpacked = (text, Type) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Type(bytes.buffer);
  };
  const grid = unpacked(data.places, Uint16Array);
  const codes = unpacked(data.codes, Int32Array);
  const sure = unpacked(data.sure, Uint8Array);
  const origins = unpacked(data.origins, Uint8Array);
  const n = codes.length;
  const xs = new Float32Array(n);
  const ys = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    xs[i] = grid[2 * i] / 32767.5 - 1;
    ys[i] = 1 - grid[2 * i + 1] / 32767.5;
  }
  const GIVEN = 1;
  const REJECTED = 2;
  const rank = new Map(data.suggested.map((item, place) => [item, place + 1]));
  const disputes = new Map(data.disputes);
  const pictures = new Map();
  let sheet = null;
  if (data.sheet) {
    data.sheet.items.forEach((item, place) => pictures.set(item, place));
    sheet = new Image();
    sheet.src = data.sheet.src;
  }
  // Items of one color one after the other, those without a label first: they lie below.
  const order = Int32Array.from(codes.keys()).sort((a, b) => codes[a] - codes[b] || a - b);

  const canvas = $("map-canvas");
  const context = canvas.getContext("2d");
  const tip = $("map-tip");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const view = { x: 0, y: 0, zoom: 1 };
  let width = 0;
  let height = 0;
  let chosen = null; // class shown alone
  let selected = -1; // item pointed at
  let bySure = false;
  let waiting = false;

  // Half the width and height of what is drawn: places are centered, and fill [-1, 1] along one side.
  const reach = { x: 1e-3, y: 1e-3 };
  for (let i = 0; i < n; i++) {
    reach.x = Math.max(reach.x, Math.abs(xs[i]));
    reach.y = Math.max(reach.y, Math.abs(ys[i]));
  }
  const scale = () => Math.min((width / 2 - 16) / reach.x, (height / 2 - 16) / reach.y) * view.zoom;
  const left = (i) => width / 2 + (xs[i] - view.x) * scale();
  const top = (i) => height / 2 + (ys[i] - view.y) * scale();
  const radius = () => {
    const crowd = Math.max(1.4, Math.min(4.5, 110 / Math.sqrt(n + 400)));
    return crowd * Math.max(0.7, Math.min(1, width / 800)) * Math.min(2.2, Math.sqrt(view.zoom));
  };
  const css = (name) => getComputedStyle(canvas).getPropertyValue(name).trim();

  // Unsure to sure: from orange over gray to blue.
  const RAMP = 16;
  const ramp = () => {
    const ends = dark.matches ? [[255, 154, 102], [96, 105, 115], [88, 180, 236]] : [[213, 94, 0], [200, 205, 211], [0, 114, 178]];
    return Array.from({ length: RAMP }, (_, step) => {
      const at = (2 * step) / (RAMP - 1);
      const [from, to, share] = at < 1 ? [ends[0], ends[1], at] : [ends[1], ends[2], at - 1];
      return `rgb(${from.map((v, k) => Math.round(v + share * (to[k] - v)))})`;
    });
  };

  function draw() {
    waiting = false;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const colors = dark.matches ? data.dark : data.light;
    const steps = ramp();
    const gray = colors[colors.length - 1];
    const r = radius();
    const ink = css("--ink");
    const paper = css("--paper");
    const color = (i) => {
      if (!bySure) return codes[i] < 0 ? gray : colors[codes[i]];
      return origins[i] === GIVEN || codes[i] < 0 ? gray : steps[Math.min(RAMP - 1, Math.floor((sure[i] / 200) * RAMP))];
    };
    const disc = (i, size) => {
      context.beginPath();
      context.arc(left(i), top(i), size, 0, 7);
    };
    const inside = (i) => left(i) > -9 && left(i) < width + 9 && top(i) > -9 && top(i) < height + 9;
    const small = n > 30000 && r < 2.2;
    // What is shown alone comes second, so that it is on top.
    for (const front of chosen === null ? [true] : [false, true]) {
      context.globalAlpha = front ? (n > 5000 ? 0.75 : 0.85) : 0.12;
      let last = "";
      for (const i of order) {
        if (chosen !== null && (codes[i] === chosen) !== front) continue;
        if (!inside(i)) continue;
        const now = color(i);
        if (now !== last) context.fillStyle = last = now;
        if (small) context.fillRect(left(i) - r, top(i) - r, 2 * r, 2 * r);
        else {
          disc(i, r);
          context.fill();
        }
      }
    }
    context.globalAlpha = 1;
    for (const i of order) {
      if (origins[i] !== GIVEN || (chosen !== null && codes[i] !== chosen) || !inside(i)) continue;
      disc(i, r + 1.6);
      context.fillStyle = color(i);
      context.fill();
      context.lineWidth = 1.4;
      context.strokeStyle = ink;
      context.stroke();
    }
    for (const i of disputes.keys()) {
      if (!inside(i) || (chosen !== null && codes[i] !== chosen)) continue;
      context.lineWidth = 2;
      context.strokeStyle = css("--bad");
      const d = r + 3.5;
      context.beginPath();
      context.moveTo(left(i) - d, top(i) - d);
      context.lineTo(left(i) + d, top(i) + d);
      context.moveTo(left(i) - d, top(i) + d);
      context.lineTo(left(i) + d, top(i) - d);
      context.stroke();
    }
    for (const i of rank.keys()) {
      if (!inside(i) || (chosen !== null && codes[i] !== chosen)) continue;
      context.lineWidth = 4;
      context.strokeStyle = paper;
      disc(i, r + 4);
      context.stroke();
      context.lineWidth = 2;
      context.strokeStyle = css("--accent");
      context.stroke();
    }
    if (selected >= 0) {
      context.lineWidth = 5;
      context.strokeStyle = paper;
      disc(selected, r + 5);
      context.stroke();
      context.lineWidth = 2.5;
      context.strokeStyle = ink;
      context.stroke();
    }
  }
  const redraw = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };

  // A name that runs from right to left stays within its marks.
  const named = (code) => `\u2068${data.classes[code]}\u2069`;

  function about(i) {
    const name = codes[i] < 0 ? "" : named(codes[i]);
    // Of 200 steps; only the last is 100%, and only none is 0%.
    const percent = sure[i] === 199 ? ">99%" : sure[i] === 1 ? "<1%" : `${Math.round(sure[i] / 2)}%`;
    const parts = [];
    if (origins[i] === REJECTED) parts.push("rejected: fits the classes least");
    else if (!name) parts.push("no label");
    else parts.push(origins[i] === GIVEN ? `${name} · given` : `${name} · ${percent}`);
    if (disputes.has(i)) parts.push(`neighbors say ${named(disputes.get(i))}`);
    if (rank.has(i)) parts.push(`to label next: ${rank.get(i)}`);
    return parts.join(" · ");
  }

  function select(i, spoken) {
    selected = i;
    redraw();
    tip.hidden = i < 0;
    if (i < 0) return;
    const picture = tip.firstElementChild;
    const place = pictures.get(i);
    picture.hidden = place === undefined;
    if (place !== undefined) {
      const { cell, columns, sizes } = data.sheet;
      const [w, h] = [sizes[2 * place], sizes[2 * place + 1]];
      [picture.width, picture.height] = [w, h];
      const shown = 96 / Math.max(w, h);
      picture.style.width = `${w * shown}px`;
      picture.style.height = `${h * shown}px`;
      picture.style.imageRendering = cell < 48 ? "pixelated" : "auto";
      const paint = () => picture.getContext("2d").drawImage(sheet, (place % columns) * cell, Math.floor(place / columns) * cell, w, h, 0, 0, w, h);
      if (sheet.complete) paint();
      else sheet.addEventListener("load", () => selected === i && paint(), { once: true });
    }
    tip.querySelector(".map-text").textContent = data.texts[i];
    tip.querySelector(".map-label").textContent = about(i);
    if (spoken) $("map-said").textContent = `${data.texts[i]}: ${about(i)}`;
    const [x, y] = [left(i), top(i)];
    const w = tip.offsetWidth;
    const h = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(width - w - 4, x + 14 + w > width ? x - w - 14 : x + 14))}px`;
    tip.style.top = `${Math.max(4, Math.min(height - h - 4, y - h / 2))}px`;
  }

  function nearest(x, y, reach) {
    let best = -1;
    let least = reach * reach;
    for (let i = 0; i < n; i++) {
      if (chosen !== null && codes[i] !== chosen) continue;
      const [dx, dy] = [left(i) - x, top(i) - y];
      const square = dx * dx + dy * dy;
      if (square < least) [best, least] = [i, square];
    }
    return best;
  }

  function step(dx, dy) {
    if (selected < 0) return select(nearest(width / 2, height / 2, Infinity), true);
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < n; i++) {
      if (i === selected || (chosen !== null && codes[i] !== chosen)) continue;
      const [x, y] = [left(i) - left(selected), top(i) - top(selected)];
      const ahead = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      if (ahead <= 0.5 || aside > ahead) continue;
      if (ahead + 2 * aside < least) [best, least] = [i, ahead + 2 * aside];
    }
    if (best < 0) return;
    // What is selected is to be seen.
    if (left(best) < 0 || left(best) > width || top(best) < 0 || top(best) > height) [view.x, view.y] = [xs[best], ys[best]];
    select(best, true);
  }

  function zoom(factor, x = width / 2, y = height / 2) {
    const before = scale();
    view.zoom = Math.max(1, Math.min(60, view.zoom * factor));
    const after = scale();
    view.x += (x - width / 2) * (1 / before - 1 / after);
    view.y += (y - height / 2) * (1 / before - 1 / after);
    if (view.zoom === 1) [view.x, view.y] = [0, 0];
    // One finger scrolls the page as long as all is shown, and moves the map when not.
    canvas.style.touchAction = view.zoom > 1 ? "none" : "pan-y";
    select(selected, false);
  }

  function showAll() {
    view.zoom = 1;
    zoom(1);
  }

  function alone(code) {
    chosen = code;
    document.querySelectorAll("#map-view [data-class]").forEach((button) => {
      button.setAttribute("aria-pressed", String(Number(button.dataset.class) === code));
    });
    const list = $("map-class");
    if (list) list.value = code === null || code < 0 ? "" : String(code);
    select(-1);
  }

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const fingers = new Map();
  let moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, at(event));
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) return select(nearest(x, y, 18), false);
    const spread = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    if (fingers.size === 2) {
      const old = spread();
      fingers.set(event.pointerId, [x, y]);
      zoom(spread() / Math.max(1, old), x, y);
      return;
    }
    if (Math.hypot(x - before[0], y - before[1]) < 3 && !moved) return;
    moved = true;
    if (view.zoom === 1) return;
    view.x -= (x - before[0]) / scale();
    view.y -= (y - before[1]) / scale();
    fingers.set(event.pointerId, [x, y]);
    select(-1);
  });
  const lifted = (event) => {
    if (fingers.has(event.pointerId) && !moved && event.type === "pointerup") select(nearest(...at(event), 24), true);
    fingers.delete(event.pointerId);
  };
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && select(-1));
  canvas.addEventListener("dblclick", (event) => zoom(2, ...at(event)));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * 0.005), ...at(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (arrows[event.key]) step(...arrows[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") showAll();
    else if (event.key === "Escape") selected >= 0 ? select(-1) : alone(null);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("blur", () => select(-1));
  $("map-in").addEventListener("click", () => zoom(1.5));
  $("map-out").addEventListener("click", () => zoom(1 / 1.5));
  $("map-all").addEventListener("click", showAll);
  document.querySelectorAll("#map-view [data-class]").forEach((button) => {
    button.addEventListener("click", () => alone(chosen === Number(button.dataset.class) ? null : Number(button.dataset.class)));
  });
  $("map-class")?.addEventListener("change", (event) => alone(event.target.value === "" ? null : Number(event.target.value)));
  document.querySelectorAll('#map-view [name="map-color"]').forEach((radio) => {
    radio.addEventListener("change", () => {
      bySure = radio.value === "sure";
      redraw();
    });
  });
  dark.addEventListener("change", redraw);
  new ResizeObserver(() => {
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    select(-1);
  }).observe(canvas);
  zoom(1);
})();
