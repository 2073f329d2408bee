// Charts as SVG: scales with round ticks, grids with their labels, and the few marks that the page's plots are made of.
// Colours and sizes are attributes, not styles, so that a saved file looks as the page does.
"use strict";

capmeter.chart = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g; // what no XML file may hold
  const node = (tag, attributes = {}, ...children) => {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) made.setAttribute(name, String(value).replace(FORBIDDEN, "\ufffd"));
    }
    made.append(...children.map((child) => (typeof child === "string" ? child.replace(FORBIDDEN, "\ufffd") : child)));
    return made;
  };

  // The distance of about `count` ticks between two numbers: 1, 2 or 5 times a power of ten.
  const stepOf = (low, high, count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const [, factor] = [[Math.SQRT2, 1], [Math.sqrt(10), 2], [Math.sqrt(50), 5], [Infinity, 10]].find(([most]) => rough / power < most);
    return factor * power;
  };

  // A linear scale from numbers to pixels; `nice` widens the numbers to the next ticks.
  const scale = (low, high, from, to, { count, nice = false, percent = false }) => {
    if (!(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    let step, first, last;
    do { // a scale has two ticks or more
      step = stepOf(low, high, count++);
      [first, last] = nice ? [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)] : [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
    } while (last <= first);
    if (nice) [low, high] = [first * step, last * step];
    const decimals = Math.max(0, -Math.floor(Math.log10(step * (percent ? 100 : 1)) + 1e-9));
    const digits = (value) => (decimals > 6 && value ? value.toExponential(0) : value.toFixed(Math.min(decimals, 6)));
    const text = (value) => digits(value * (percent ? 100 : 1)).replace("-", "−") + (percent ? "%" : "");
    return {
      low, high, from, to,
      at: (value) => from + ((value - low) / (high - low)) * (to - from),
      value: (pixel) => low + ((pixel - from) / (to - from)) * (high - low),
      ticks: Array.from({ length: last - first + 1 }, (_, k) => ({ value: (first + k) * step, text: text((first + k) * step) })),
    };
  };

  const canvas = (width, height, theme) => node("svg", { xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}`,
    "font-family": "system-ui, sans-serif", "font-size": 12, fill: theme.ink });

  // lines at the ticks of x with their numbers below, and at the ticks of y with their numbers to the left
  const gridX = (x, top, bottom, theme) => [
    node("g", { stroke: theme.grid }, ...x.ticks.map(({ value }) => node("line", { x1: x.at(value), x2: x.at(value), y1: top, y2: bottom }))),
    node("g", { fill: theme.faint, "text-anchor": "middle" }, ...x.ticks.map(({ value, text }) => node("text", { x: x.at(value), y: bottom + 17 }, text))),
  ];
  const gridY = (y, left, right, theme) => [
    node("g", { stroke: theme.grid }, ...y.ticks.map(({ value }) => node("line", { x1: left, x2: right, y1: y.at(value), y2: y.at(value) }))),
    node("g", { fill: theme.faint, "text-anchor": "end" }, ...y.ticks.map(({ value, text }) => node("text", { x: left - 8, y: y.at(value), dy: ".35em" }, text))),
  ];

  const polygon = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
  const star = polygon(Array.from({ length: 10 }, (_, k) => [0, k].map((_, axis) => (k % 2 ? 0.6 : 1.5) * (axis ? -Math.cos((k * Math.PI) / 5) : Math.sin((k * Math.PI) / 5))))) + "Z";
  const SYMBOLS = ["M-1,0A1,1 0 1,1 1,0A1,1 0 1,1 -1,0Z", "M-.9-.9H.9V.9H-.9Z", "M0-1.2 1.1.8H-1.1Z", "M0-1.3 1.3 0 0 1.3-1.3 0Z", star,
    "M0 1.2 1.1-.8H-1.1Z", "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z", "M-1.2-.6-.6-1.2 0-.6.6-1.2 1.2-.6.6 0 1.2.6.6 1.2 0 .6-.6 1.2-1.2.6-.6 0Z"];
  const symbol = (number, x, y, size, attributes = {}, ...children) =>
    node("path", { d: SYMBOLS[number % SYMBOLS.length], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`, ...attributes }, ...children);

  // Points counted on a hexagonal grid: the nearest centre of two rectangular grids, one of them shifted by half a field.
  const hexagons = (points, wide) => {
    const high = wide * Math.sqrt(3);
    const bins = new Map();
    for (const [x, y] of points) {
      const near = [Math.round(x / wide) * wide, Math.round(y / high) * high];
      const shifted = [(Math.floor(x / wide) + 0.5) * wide, (Math.floor(y / high) + 0.5) * high];
      const far = ([cx, cy]) => (cx - x) ** 2 + (cy - y) ** 2;
      const centre = far(near) <= far(shifted) ? near : shifted;
      const key = centre.join();
      const known = bins.get(key);
      if (known) known.count++;
      else bins.set(key, { x: centre[0], y: centre[1], count: 1 });
    }
    return [...bins.values()];
  };

  let pen = null;
  const widthOf = (text) => {
    if (!pen) { pen = document.createElement("canvas").getContext("2d"); pen.font = "12px system-ui, sans-serif"; }
    return pen.measureText(text).width;
  };
  // A text that is shortened to so many pixels, but keeps its `tail` whole: a long name its letter.
  const fit = (text, pixels, tail = "") => {
    if (text.length <= 200 && widthOf(text + tail) <= pixels) return text + tail;
    const letters = Array.from(text.slice(0, 200));
    while (letters.length > 1 && widthOf(letters.join("") + "…" + tail) > pixels) letters.pop();
    return letters.join("").trimEnd() + "…" + tail;
  };

  // The extent of { low, value, high }, without those that lie so far out that the others would shrink below a
  // third: of three or more, and never more than half of them; with some room at both ends.
  const extent = (spans) => {
    const reach = (among) => [Math.min(...among.map(({ low }) => low)), Math.max(...among.map(({ high }) => high))];
    let kept = [...spans].sort((a, b) => a.value - b.value);
    while (kept.length > 2 && kept.length - 1 >= spans.length / 2) {
      const size = (among) => { const [low, high] = reach(among); return high - low; };
      const fewer = [kept.slice(1), kept.slice(0, -1)].sort((a, b) => size(a) - size(b))[0];
      if (size(fewer) === 0 || size(fewer) >= size(kept) / 3) break;
      kept = fewer;
    }
    const [low, high] = reach(kept);
    return [low - (high - low) / 12, high + (high - low) / 12];
  };

  return { node, scale, canvas, gridX, gridY, polygon, symbol, hexagons, widthOf, fit, extent };
})();
