// The plots, drawn by Observable Plot. Each is a function of its width and colours, so that it can be drawn again: in
// another theme, at another width, or in light colours for a file.
"use strict";

capmeter.plots = (captions, only) => {
  const { element } = capmeter;
  const at = (id) => document.getElementById(id);
  // Okabe and Ito's colours, told apart with any colour vision; the order keeps neighbours far apart in lightness too
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4c9a", "#4d4d4d"];
  const DARK = ["#5ab4e6", "#f28e4b", "#3cc9a0", "#e6a5c8", "#f2c14e", "#a9d8f5", "#b79ad1", "#b5b5b5"];
  const SYMBOLS = ["circle", "square", "triangle", "diamond2", "star", "wye", "cross", "asterisk"];
  let printing = false;
  const dark = () => !printing && isDark();
  const isDark = () => document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const scheme = (night) => ({ colours: night ? DARK : LIGHT, ink: night ? "#e8e6e1" : "#1d1d1f", faint: night ? "#9b9a97" : "#6b6b70",
    grid: night ? "#3a3a3d" : "#e4e2dd", paper: night ? "#1b1b1d" : "#ffffff", dark: night });
  const colour = (theme, s) => theme.colours[s % 8];
  const systems = captions.systems;
  const rowsOf = systems.map((_, s) => {
    const rows = [];
    for (let r = 0; r < captions.rows; r++) if (captions.system[r] === s) rows.push(r);
    return rows;
  });
  const base = (theme, width, more) => ({ width, style: { background: "transparent", color: theme.ink, fontFamily: "system-ui, sans-serif", fontSize: "12px" }, ...more });
  const figures = [];

  // a figure with its title, its plot and the button that saves it
  const figure = (title, describe, draw) => {
    const plot = element("div", { class: "plot" });
    const save = element("button", { type: "button", class: "save", "aria-label": `Save ${title} as SVG`, title: "save as SVG", onclick: () => download(title, draw) }, "SVG");
    const made = element("figure", { class: "card" }, element("figcaption", {}, element("span", {}, title), save), plot);
    let width = 0;
    const render = () => {
      width = Math.floor(plot.clientWidth);
      if (!width) return;
      const svg = draw(width, scheme(dark()), true);
      svg.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${title}. ${describe()}`);
      plot.replaceChildren(svg);
    };
    new ResizeObserver(() => { if (Math.abs(plot.clientWidth - width) > 2) capmeter.later(render); }).observe(plot);
    figures.push(render);
    made.redraw = render;
    return made;
  };
  const download = (title, draw) => {
    const width = 640;
    const theme = scheme(false);
    const svg = draw(width, theme, false);
    const height = Number(svg.getAttribute("height"));
    const space = "http://www.w3.org/2000/svg";
    const make = (tag, attributes, text = "") => {
      const node = document.createElementNS(space, tag);
      for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
      node.textContent = text;
      return node;
    };
    const names = systems.length > 1 ? systems : [];
    const top = 34 + (names.length ? 20 * Math.ceil(names.length / 4) : 0);
    const whole = make("svg", { xmlns: space, width, height: height + top, viewBox: `0 0 ${width} ${height + top}`, "font-family": "system-ui, sans-serif", "font-size": 12 });
    whole.append(make("rect", { width, height: height + top, fill: theme.paper }), make("text", { x: 12, y: 22, fill: theme.ink, "font-size": 15, "font-weight": 600 }, title));
    names.forEach((name, s) => {
      const x = 16 + (s % 4) * 152, y = 42 + 20 * Math.floor(s / 4);
      whole.append(make("circle", { cx: x, cy: y, r: 5, fill: colour(theme, s) }), make("text", { x: x + 10, y: y + 4, fill: theme.ink }, name.length > 20 ? name.slice(0, 19) + "…" : name));
    });
    svg.setAttribute("y", top);
    svg.setAttribute("fill", theme.ink);
    svg.setAttribute("color", theme.ink);
    whole.append(svg);
    const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(whole)], { type: "image/svg+xml" }));
    const link = element("a", { href: url, download: title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) + ".svg" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };

  const legend = () => document.querySelectorAll("[data-legend]").forEach((place) => {
    if (systems.length < 2) place.hidden = true;
    place.replaceChildren(...systems.map((name, s) => element("span", {}, element("i", { class: "dot", "data-system": s % 8 }), element("bdi", {}, name))));
  });

  const short = (name) => (name.length > 16 ? name.slice(0, 15) + "…" : name);
  const intervals = (m) => {
    const cells = captions.table.filter((cell) => cell.metric === m);
    const describe = () => cells.map((cell) => `${systems[cell.system]} ${cell.score.toFixed(4)}` + (cell.low === null ? "" : ` from ${cell.low.toFixed(4)} to ${cell.high.toFixed(4)}`)).join("; ");
    return figure(`${captions.metrics[m].name}, 95% interval`, describe, (width, theme) => Plot.plot(base(theme, width, {
      height: 36 + 21 * cells.length, marginLeft: 112, marginRight: 16, marginBottom: 26, marginTop: 4,
      x: { label: null, ticks: Math.max(3, Math.floor(width / 90)), nice: true }, y: { label: null, domain: cells.map((cell) => cell.system), tickFormat: (s) => short(systems[s]), tickSize: 0 },
      marks: [
        Plot.gridX({ stroke: theme.grid, strokeOpacity: 1, ticks: Math.max(3, Math.floor(width / 90)) }),
        Plot.ruleY(cells.filter((cell) => cell.low !== null), { y: "system", x1: "low", x2: "high", stroke: (cell) => colour(theme, cell.system), strokeWidth: 3, strokeLinecap: "round", strokeOpacity: 0.55 }),
        Plot.dot(cells, { y: "system", x: "score", r: 4.5, fill: (cell) => colour(theme, cell.system) }),
      ],
    })));
  };

  const STEPS = Math.round(Math.min(32, Math.max(8, 1.6 * Math.sqrt(captions.rows / systems.length))));
  const histogram = (m) => {
    const { low, high, name } = captions.metrics[m];
    const span = high - low || 1;
    const lines = systems.flatMap((_, s) => {
      const counts = new Float64Array(STEPS);
      let n = 0;
      for (const r of rowsOf[s]) {
        const value = captions.scores[m][r];
        if (Number.isNaN(value)) continue;
        counts[Math.min(STEPS - 1, Math.floor(((value - low) / span) * STEPS))]++;
        n++;
      }
      if (!n) return [];
      return Array.from({ length: STEPS + 1 }, (_, k) => ({ s, x: low + (k * span) / STEPS, share: counts[Math.min(k, STEPS - 1)] / n }));
    });
    const describe = () => systems.map((system, s) => {
      const values = rowsOf[s].map((r) => captions.scores[m][r]).filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
      const part = (q) => values[Math.floor(q * (values.length - 1))];
      return values.length ? `${system}: median ${part(0.5).toFixed(3)}, middle half from ${part(0.25).toFixed(3)} to ${part(0.75).toFixed(3)}` : `${system}: no scores`;
    }).join("; ");
    return figure(name, describe, (width, theme) => Plot.plot(base(theme, width, {
      height: 170, marginLeft: 40, marginRight: 12, marginBottom: 28, marginTop: 10,
      x: { label: null, ticks: Math.max(3, Math.floor(width / 80)) }, y: { label: null, ticks: 4, tickFormat: "%", tickSize: 0 },
      marks: [
        Plot.gridY({ stroke: theme.grid, strokeOpacity: 1, ticks: 4 }),
        Plot.areaY(lines, { x: "x", y1: 0, y2: "share", z: "s", fill: (d) => colour(theme, d.s), fillOpacity: systems.length > 1 ? 0.07 : 0.25, curve: "step-after" }),
        Plot.lineY(lines, { x: "x", y: "share", z: "s", stroke: (d) => colour(theme, d.s), strokeWidth: 1.6, curve: "step-after" }),
        Plot.ruleY([0], { stroke: theme.faint }),
      ],
    })));
  };

  const POINTS = 3000;
  const scatter = () => {
    const [x, y] = [Number(at("pair-x").value), Number(at("pair-y").value)];
    const chosen = at("pair-system").value;
    const [a, b] = [captions.metrics[x], captions.metrics[y]];
    const points = [];
    (chosen === "" ? rowsOf.map((_, s) => s) : [Number(chosen)]).forEach((s) => rowsOf[s].forEach((r) => {
      if (!Number.isNaN(captions.scores[x][r]) && !Number.isNaN(captions.scores[y][r])) points.push({ s, r, x: captions.scores[x][r], y: captions.scores[y][r] });
    }));
    const dots = points.length <= POINTS;
    const among = points.map((point) => point.r);
    const ranked = (m) => (among.length === captions.rows ? captions.rank(m) : capmeter.ranks(captions.scores[m], among));
    const rho = capmeter.correlation(ranked(x), ranked(y), among);
    const describe = () => `${points.length} captions; rank correlation ${Number.isNaN(rho) ? "not defined" : rho.toFixed(2)}. Every field can be chosen with the pointer; the list below orders by disagreement.`;
    // few captions are dots in their systems' colours; many are counted in hexagons, of one colour where systems mix
    const mixed = chosen === "" && systems.length > 1;
    at("pairs").querySelector("[data-legend]").hidden = !(dots && mixed);
    return figure(`${b.name} against ${a.name}`, describe, (width, theme, live) => {
      const wide = width > 500;
      const hue = mixed ? colour(theme, 0) : colour(theme, Number(chosen));
      const svg = Plot.plot(base(theme, width, {
        height: Math.max(300, Math.min(480, width * 0.6)), marginLeft: 48, marginBottom: 38, marginTop: 30, marginRight: 14,
        r: { type: "sqrt", range: [0, wide ? 9 : 7] },
        x: { label: `${a.name} →`, labelArrow: "none", nice: true }, y: { label: `↑ ${b.name}`, labelArrow: "none", nice: true, ticks: 6 },
        marks: [
          Plot.gridX({ stroke: theme.grid, strokeOpacity: 1 }), Plot.gridY({ stroke: theme.grid, strokeOpacity: 1, ticks: 6 }),
          dots ? Plot.dot(points, { x: "x", y: "y", r: 3, fill: (d) => colour(theme, d.s), fillOpacity: 0.7, symbol: (d) => SYMBOLS[d.s % 8], title: (d) => captions.texts[captions.text[d.r]].slice(0, 200) })
            : Plot.dot(points, Plot.hexbin({ r: "count" }, { x: "x", y: "y", fill: hue, fillOpacity: 0.8, binWidth: wide ? 15 : 12 })),
          Plot.text([`Spearman ρ ${Number.isNaN(rho) ? "–" : rho.toFixed(2).replace("-", "−")} · ${points.length.toLocaleString("en")} captions`],
            { frameAnchor: "top-right", dy: -22, fill: theme.faint }),
        ],
      }));
      if (live) {
        svg.style.cursor = "pointer";
        svg.addEventListener("click", (event) => {
          const box = svg.getBoundingClientRect();
          const scale = svg.viewBox.baseVal.width / box.width;
          const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
          const [sx, sy] = [svg.scale("x"), svg.scale("y")];
          const reach = 14;
          const near = points.filter((point) => Math.hypot(sx.apply(point.x) - px, sy.apply(point.y) - py) <= reach).map((point) => point.r);
          if (near.length) only(`near ${a.name} ${sx.invert(px).toFixed(2)}, ${b.name} ${sy.invert(py).toFixed(2)}`, near);
        });
      }
      return svg;
    });
  };

  const correlations = () => {
    const all = Uint32Array.from({ length: captions.rows }, (_, r) => r);
    const whole = captions.scores.map((scores) => !scores.some(Number.isNaN));
    // where one of the two has gaps, the captions that have both are ranked anew
    const between = (i, k) => {
      if (whole[i] && whole[k]) return capmeter.correlation(captions.rank(i), captions.rank(k), all);
      const both = all.filter((r) => !Number.isNaN(captions.scores[i][r]) && !Number.isNaN(captions.scores[k][r]));
      return capmeter.correlation(capmeter.ranks(captions.scores[i], both), capmeter.ranks(captions.scores[k], both), both);
    };
    const rho = captions.metrics.map((_, i) => captions.metrics.map((_, k) => (k < i ? between(i, k) : null)));
    const value = (i, k) => (i === k ? 1 : i > k ? rho[i][k] : rho[k][i]);
    at("correlations").replaceChildren(element("table", { class: "correlations" },
      element("caption", {}, "Rank correlation (Spearman) over all captions"),
      element("thead", {}, element("tr", {}, element("td", {}), ...captions.metrics.map((metric) => element("th", { scope: "col" }, metric.name)))),
      element("tbody", {}, ...captions.metrics.map((metric, i) => element("tr", {}, element("th", { scope: "row" }, metric.name),
        ...captions.metrics.map((_, k) => element("td", i === k ? { class: "self" } : { style: `--share:${Math.round(Math.max(0, value(i, k) || 0) * 100)}%` },
          i === k ? "" : Number.isNaN(value(i, k)) ? "–" : value(i, k).toFixed(2).replace("-", "−").replace(/^(−?)0\./, "$1."))))))));
  };

  const ellipses = () => {
    const plot = captions.systemPlot;
    const points = plot.points.map(([s, x, y]) => ({ s, x, y }));
    const outline = plot.ellipses.flatMap((ellipse) => ellipse.outline.map(([x, y]) => ({ s: ellipse.system, x, y })));
    const centres = plot.ellipses.map((ellipse) => ({ s: ellipse.system, x: ellipse.mean[0], y: ellipse.mean[1] }));
    const describe = () => plot.ellipses.map((ellipse) => `${systems[ellipse.system]}: mean ${ellipse.mean.map((v) => v.toFixed(2)).join(", ")}`).join("; ");
    return figure("Systems by meaning and style", describe, (width, theme) => Plot.plot(base(theme, width, {
      height: Math.max(300, Math.min(500, width * 0.62)), marginLeft: 48, marginBottom: 38, marginTop: 30,
      x: { label: `${plot.x} →`, labelArrow: "none", nice: true }, y: { label: `↑ ${plot.y}`, labelArrow: "none", nice: true },
      marks: [
        Plot.gridX({ stroke: theme.grid, strokeOpacity: 1 }), Plot.gridY({ stroke: theme.grid, strokeOpacity: 1 }),
        Plot.dot(points, { x: "x", y: "y", r: 2, fill: (d) => colour(theme, d.s), fillOpacity: 0.35 }),
        Plot.line(outline, { x: "x", y: "y", z: "s", stroke: (d) => colour(theme, d.s), strokeWidth: 2.2 }),
        Plot.dot(centres, { x: "x", y: "y", r: 6, fill: (d) => colour(theme, d.s), stroke: theme.paper, strokeWidth: 1.5 }),
      ],
    })));
  };

  const choices = (select, pairs, value) => { select.append(...pairs.map(([key, text]) => element("option", { value: key }, text))); select.value = value; };
  const metricNames = captions.metrics.map((metric, m) => [m, metric.name]);
  choices(at("pair-x"), metricNames, 0);
  choices(at("pair-y"), metricNames, captions.metrics.length - 1);
  choices(at("pair-system"), [["", systems.length > 1 ? "all systems" : systems[0]], ...(systems.length > 1 ? systems.map((name, s) => [s, name]) : [])], "");

  legend();
  if (systems.length > 1 && captions.table.length) at("intervals").append(...captions.metrics.flatMap((metric, m) => (metric.human ? [] : [intervals(m)])));
  at("histograms").append(...captions.metrics.map((_, m) => histogram(m)));
  let shownScatter = null;
  const placeScatter = () => {
    if (shownScatter) figures.splice(figures.indexOf(shownScatter.redraw), 1);
    shownScatter = scatter();
    at("scatter").replaceChildren(shownScatter);
  };
  if (captions.metrics.length > 1) {
    capmeter.later(placeScatter);
    capmeter.later(correlations);
    for (const id of ["pair-x", "pair-y", "pair-system"]) at(id).addEventListener("change", placeScatter);
  } else at("pairs").hidden = true;
  if (captions.systemPlot && at("ellipses")) at("ellipses").append(ellipses());

  const redraw = () => figures.forEach((render) => render());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const printed = (now) => { printing = now; redraw(); };
  window.addEventListener("beforeprint", () => printed(true));
  window.addEventListener("afterprint", () => printed(false));
  return { redraw };
};
