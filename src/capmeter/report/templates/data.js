// The page's data: decoded once, then only read.
"use strict";
const capmeter = {};

capmeter.load = async () => {
  const text = document.getElementById("capmeter-data").textContent.trim();
  const plain = atob(text);
  const packed = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) packed[i] = plain.charCodeAt(i);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};

// Captions as columns: row r has system[r], text[r], id[r], image[r], references[r] and scores[m][r] (NaN: none).
capmeter.captions = (data) => {
  const rows = data.text.length;
  const scores = data.scores.map((column) => {
    const values = new Float64Array(rows);
    for (let r = 0; r < rows; r++) values[r] = column[r] ?? NaN;
    return values;
  });
  const flags = new Map();
  for (const note of data.notes) for (const row of note.rows) flags.set(row, [...(flags.get(row) || []), note.reason]);
  const sameImage = new Map();
  for (let r = 0; r < rows; r++) {
    const image = data.image[r];
    if (!sameImage.has(image)) sameImage.set(image, []);
    sameImage.get(image).push(r);
  }
  const referencesOf = (r) => data.referenceSets[data.references[r]];
  const ranks = new Map();
  const rank = (m) => {
    if (!ranks.has(m)) ranks.set(m, capmeter.ranks(scores[m]));
    return ranks.get(m);
  };
  return { ...data, scores, rank, rows, flags, sameImage, referencesOf };
};

// Ranks between 0 (lowest) and 1, equal values share their mean rank; NaN stays NaN.
capmeter.ranks = (values, among = null) => {
  const order = [];
  if (among) { for (const r of among) if (!Number.isNaN(values[r])) order.push(r); }
  else for (let r = 0; r < values.length; r++) if (!Number.isNaN(values[r])) order.push(r);
  const index = Uint32Array.from(order).sort((a, b) => values[a] - values[b]);
  const ranks = new Float64Array(values.length).fill(NaN);
  const last = Math.max(1, index.length - 1);
  for (let start = 0; start < index.length; ) {
    let end = start;
    while (end + 1 < index.length && values[index[end + 1]] === values[index[start]]) end++;
    for (let k = start; k <= end; k++) ranks[index[k]] = (start + end) / 2 / last;
    start = end + 1;
  }
  return ranks;
};

// Deferred work: done piece by piece, when the browser is idle.
capmeter.later = (() => {
  const waiting = [];
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => 10 }), 30));
  const work = (deadline) => {
    do waiting.shift()(); while (waiting.length && deadline.timeRemaining() > 5);
    if (waiting.length) idle(work, { timeout: 500 });
    else document.documentElement.dataset.drawn = "yes";
  };
  return (piece) => { if (waiting.push(piece) === 1) idle(work, { timeout: 500 }); };
})();

capmeter.correlation = (x, y, among) => {
  let n = 0, sx = 0, sy = 0;
  for (const r of among) if (!Number.isNaN(x[r]) && !Number.isNaN(y[r])) { n++; sx += x[r]; sy += y[r]; }
  if (n < 2) return NaN;
  let xx = 0, yy = 0, xy = 0;
  for (const r of among) {
    if (Number.isNaN(x[r]) || Number.isNaN(y[r])) continue;
    const a = x[r] - sx / n, b = y[r] - sy / n;
    xx += a * a; yy += b * b; xy += a * b;
  }
  return xx && yy ? xy / Math.sqrt(xx * yy) : NaN;
};

// Words are matched from their beginning: "man" finds "man" and "man's" but not "woman". Scripts that write without
// spaces are matched anywhere.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
capmeter.normal = (text) => " " + text.toLowerCase().replace(/[^\p{L}\p{N}\p{M}\p{So}]+/gu, " ").trim() + " ";

capmeter.query = (text) => {
  const terms = [];
  for (const [, minus, phrase, word] of text.matchAll(/(-?)(?:"([^"]*)"?|([^\s"]+))/g)) {
    const plain = capmeter.normal(phrase ?? word).trim();
    if (plain) terms.push({ without: minus === "-", look: UNSPACED.test(plain) ? plain : " " + plain + (phrase === undefined ? "" : " ") });
  }
  return terms;
};

capmeter.index = (texts) => {
  let normal = null;
  const ready = () => { normal ??= texts.map(capmeter.normal); };
  capmeter.later(ready);
  return (query) => {
    const terms = capmeter.query(query);
    if (!terms.length) return null;
    ready();
    const find = (matches) => {
      const hits = new Uint8Array(texts.length);
      for (let t = 0; t < hits.length; t++) hits[t] = matches(normal[t]) ? 1 : 0;
      return hits;
    };
    return terms.map(({ look, without }) => ({ without, hits: find((text) => text.includes(look)) }));
  };
};

capmeter.element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
};

capmeter.shown = (value, decimals) => (Number.isNaN(value) ? "–" : value.toFixed(Math.min(decimals, 3)).replace("-", "−"));

// A box that scrolls sideways shows it: its edge fades, and a line below gives the direction.
capmeter.cue = (box) => {
  const line = capmeter.element("p", { class: "more", "aria-hidden": "true", hidden: true });
  box.after(line);
  const look = () => {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    const [left, right] = [box.scrollLeft > 2, rest > 2];
    if (left || right) box.dataset.more = left && right ? "both" : left ? "left" : "right";
    else delete box.dataset.more;
    line.hidden = !(left || right);
    line.textContent = right ? "scroll for more →" : "← scroll back";
  };
  box.addEventListener("scroll", look, { passive: true });
  const watch = new ResizeObserver(look);
  for (const part of [box, ...box.children]) watch.observe(part);
  return box;
};
