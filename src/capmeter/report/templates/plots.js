// The plots of the page. Each is a function of its width and colours, so that it can be drawn again: in another theme,
// at another width, or in light colours for a file.
"use strict";

capmeter.plots = (captions, only) => {
  const { element } = capmeter;
  const { node, scale, canvas, gridX, gridY, polygon, symbol, hexagons, widthOf, fit, extent } = capmeter.chart;
  const at = (id) => document.getElementById(id);
  // Okabe and Ito's colours, distinct with any colour vision; neighbours in this order also differ in lightness
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4c9a", "#4d4d4d"];
  const DARK = ["#5ab4e6", "#f28e4b", "#3cc9a0", "#e6a5c8", "#f2c14e", "#a9d8f5", "#b79ad1", "#b5b5b5"];
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
  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const figures = [];

  // a figure with its title, its plot and the button that saves it
  const figure = (title, describe, draw, role = "img") => {
    const plot = element("div", { class: "plot" });
    const save = element("button", { type: "button", class: "save", "aria-label": `Save ${title} as SVG`, title: "Save as SVG", onclick: () => download(title, draw) }, "SVG");
    const made = element("figure", { class: "card" }, element("figcaption", {}, element("span", {}, title), save), plot);
    let width = 0;
    const render = () => {
      width = Math.floor(plot.clientWidth);
      if (!width) return;
      const svg = draw(width, scheme(dark()), true);
      svg.setAttribute("role", role);
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
    const plot = draw(width, theme, false);
    const height = Number(plot.getAttribute("height"));
    const names = systems.length > 1 ? systems : [];
    const top = 34 + 20 * Math.ceil(names.length / 4);
    const whole = canvas(width, height + top, theme);
    whole.append(node("rect", { width, height: height + top, fill: theme.paper }),
      node("text", { x: 12, y: 22, "font-size": 15, "font-weight": 600 }, title));
    names.forEach((name, s) => {
      const x = 16 + (s % 4) * 152, y = 42 + 20 * Math.floor(s / 4);
      whole.append(node("circle", { cx: x, cy: y, r: 5, fill: colour(theme, s) }), node("text", { x: x + 10, y: y + 4 }, fit(name, 130)));
    });
    plot.setAttribute("y", top);
    whole.append(plot);
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

  const intervals = (m) => {
    const cells = captions.table.filter((cell) => cell.metric === m);
    const spans = cells.map(({ score, low, high }) => ({ low: low ?? score, value: score, high: high ?? score }));
    const describe = () => cells.map((cell) => `${systems[cell.system]} ${cell.score.toFixed(4)}` + (cell.low === null ? "" : ` from ${cell.low.toFixed(4)} to ${cell.high.toFixed(4)}`)).join("; ");
    return figure(`${captions.metrics[m].name}, 95% interval`, describe, (width, theme) => {
      const [left, right, top, bottom] = [112, width - 16, 4, 10 + 21 * cells.length];
      const x = scale(...extent(spans), left, right, { count: Math.max(2, Math.floor((right - left) / 45)) });
      const svg = canvas(width, bottom + 26, theme);
      svg.append(...gridX(x, top, bottom, theme));
      cells.forEach((cell, k) => {
        const y = top + 13 + 21 * k;
        const ink = colour(theme, cell.system);
        const letter = captions.letters[cell.system];
        svg.append(node("text", { x: left - 10, y, dy: ".35em", "text-anchor": "end" }, fit(systems[cell.system], left - 14, letter && ` ${letter}`)));
        const side = cell.score < x.low ? -1 : cell.score > x.high ? 1 : 0;
        if (side) { // an outlier: an arrow at the edge, with its number
          const edge = side < 0 ? left : right;
          svg.append(node("path", { d: polygon([[edge + 5 * side, y], [edge - 4 * side, y - 5], [edge - 4 * side, y + 5]]) + "Z", fill: ink }),
            node("text", { x: edge - 9 * side, y, dy: ".35em", fill: theme.faint, "text-anchor": side < 0 ? "start" : "end" }, cell.score.toFixed(4).replace("-", "−")));
          return;
        }
        if (cell.low !== null) svg.append(node("line", { x1: x.at(Math.max(cell.low, x.low)), x2: x.at(Math.min(cell.high, x.high)), y1: y, y2: y,
          stroke: ink, "stroke-width": 3, "stroke-linecap": "round", "stroke-opacity": 0.55 }));
        svg.append(node("circle", { cx: x.at(cell.score), cy: y, r: 4.5, fill: ink }));
      });
      return svg;
    });
  };

  const STEPS = Math.round(Math.min(32, Math.max(8, 1.6 * Math.sqrt(captions.rows / systems.length))));
  const histogram = (m) => {
    const { low, high, name } = captions.metrics[m];
    const span = high - low || 1;
    const shares = systems.map((_, s) => {
      const counts = new Float64Array(STEPS);
      let n = 0;
      for (const r of rowsOf[s]) {
        const value = captions.scores[m][r];
        if (Number.isNaN(value)) continue;
        counts[Math.min(STEPS - 1, Math.floor(((value - low) / span) * STEPS))]++;
        n++;
      }
      return n ? counts.map((count) => count / n) : null;
    });
    const most = Math.max(...shares.map((share) => (share ? Math.max(...share) : 0)));
    const describe = () => systems.map((system, s) => {
      const values = Float64Array.from(rowsOf[s], (r) => captions.scores[m][r]).filter((value) => !Number.isNaN(value)).sort();
      const part = (q) => values[Math.floor(q * (values.length - 1))];
      return values.length ? `${system}: median ${part(0.5).toFixed(3)}, interquartile range from ${part(0.25).toFixed(3)} to ${part(0.75).toFixed(3)}` : `${system}: no scores`;
    }).join("; ");
    return figure(name, describe, (width, theme) => {
      const [left, right, top, bottom] = [40, width - 12, 10, 142];
      const x = scale(low, low + span, left, right, { count: Math.max(3, Math.floor(width / 80)) });
      const y = scale(0, most, bottom, top, { count: 4, percent: true });
      const svg = canvas(width, 170, theme);
      svg.append(...gridX(x, bottom, bottom, theme), ...gridY(y, left, right, theme));
      shares.forEach((share, s) => {
        if (!share) return;
        const steps = [...share].flatMap((part, k) => [k, k + 1].map((edge) => [x.at(low + (edge * span) / STEPS), y.at(part)]));
        const ink = colour(theme, s);
        svg.append(node("path", { d: polygon([[left, bottom], ...steps, [right, bottom]]), fill: ink, "fill-opacity": systems.length > 1 ? 0.07 : 0.25 }),
          node("path", { d: polygon(steps), fill: "none", stroke: ink, "stroke-width": 1.6 }));
      });
      svg.append(node("line", { x1: left, x2: right, y1: bottom, y2: bottom, stroke: theme.faint }));
      return svg;
    });
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
    const describe = () => `${points.length} captions; rank correlation ${Number.isNaN(rho) ? "not defined" : rho.toFixed(2)}. Arrow keys move a ring, Enter lists the captions in it; the list below can be sorted by disagreement.`;
    // few captions are dots in their systems' colours; many are counted in hexagons, of one colour where systems mix
    const mixed = chosen === "" && systems.length > 1;
    at("pairs").querySelector("[data-legend]").hidden = !(dots && mixed);
    return figure(`${b.name} against ${a.name}`, describe, (width, theme, live) => {
      const found = `ρ ${Number.isNaN(rho) ? "–" : rho.toFixed(2).replace("-", "−")} · ${points.length.toLocaleString("en")} captions`;
      const label = width < 500 ? found : `Spearman ${found}${dots ? "" : ", larger dots: more captions"}`;
      const field = fieldOf(width, Math.max(300, Math.min(480, width * 0.6)), theme, a.name, b.name, points, label);
      const spots = points.map((point) => [field.x.at(point.x), field.y.at(point.y)]);
      if (dots) {
        points.forEach(({ s, r }, k) => field.svg.append(symbol(s, ...spots[k], 3, { fill: colour(theme, s), "fill-opacity": 0.7 },
          node("title", {}, captions.texts[captions.text[r]].slice(0, 200)))));
      } else {
        const wide = width > 500 ? 15 : 12;
        const bins = hexagons(spots, wide);
        const most = Math.max(...bins.map(({ count }) => count));
        field.svg.append(node("g", { fill: mixed ? colour(theme, 0) : colour(theme, Number(chosen)), "fill-opacity": 0.8 }, ...bins.map(({ x, y, count }) =>
          node("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: Math.max(0.8, 0.6 * wide * Math.sqrt(count / most)).toFixed(2) }))));
      }
      if (live) pointing(field, spots, points, width, theme, [a.name, b.name]);
      return field.svg;
    }, "application");
  };

  // the captions near a place of a plot: listed at a click, or by keyboard, where arrow keys move a ring and Enter lists
  const pointing = ({ svg, x, y }, spots, points, width, theme, names) => {
    const NEAR = 14;
    const near = ([px, py]) => points.filter((_, k) => Math.hypot(spots[k][0] - px, spots[k][1] - py) <= NEAR).map((point) => point.r);
    const called = ([px, py]) => `${names[0]} ${x.value(px).toFixed(2)}, ${names[1]} ${y.value(py).toFixed(2)}`;
    const list = (place) => { const found = near(place); if (found.length) only(`near ${called(place)}`, found); };
    const ring = node("circle", { r: NEAR, fill: "none", stroke: theme.ink, "stroke-width": 2.5, visibility: "hidden" });
    let place = spots.length ? spots[Math.floor(spots.length / 2)] : [(x.from + x.to) / 2, (y.from + y.to) / 2];
    const told = () => {
      ring.setAttribute("cx", place[0]);
      ring.setAttribute("cy", place[1]);
      const found = near(place).length;
      at("scatter-place").textContent = `${called(place)}: ${found.toLocaleString("en")} ${found === 1 ? "caption" : "captions"}${found ? "; Enter lists them" : ""}`;
    };
    svg.append(ring);
    svg.style.cursor = "pointer";
    svg.setAttribute("tabindex", 0);
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      list([event.clientX - box.left, event.clientY - box.top].map((pixel) => (pixel * width) / box.width));
    });
    svg.addEventListener("focus", () => { ring.setAttribute("visibility", "visible"); told(); });
    svg.addEventListener("blur", () => ring.setAttribute("visibility", "hidden"));
    svg.addEventListener("keydown", (event) => {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
      if (event.key !== "Enter" && !dx && !dy) return;
      event.preventDefault();
      if (event.key === "Enter") { list(place); return; }
      const step = event.shiftKey ? 4 * NEAR : NEAR / 2;
      const within = (value, one, other) => Math.min(Math.max(value, Math.min(one, other)), Math.max(one, other));
      place = [within(place[0] + dx * step, x.from, x.to), within(place[1] + dy * step, y.from, y.to)];
      told();
    });
  };

  // the frame of a plot of points: round scales that hold them all, their grids, and what is measured across and up
  const fieldOf = (width, height, theme, across, up, points, label = "") => {
    const [left, right, top, bottom] = [48, width - 14, 36, height - 42];
    const x = scale(...range(points.map((point) => point.x)), left, right, { count: Math.max(3, Math.floor(width / 90)), nice: true });
    const y = scale(...range(points.map((point) => point.y)), bottom, top, { count: 5, nice: true });
    const svg = canvas(width, height, theme);
    svg.append(...gridX(x, top, bottom, theme), ...gridY(y, left, right, theme),
      node("text", { x: right, y: height - 6, "text-anchor": "end" }, fit(across, right - 20, " →")),
      node("text", { x: 4, y: 14 }, fit(`↑ ${up}`, right - 24 - widthOf(label))),
      node("text", { x: right, y: 14, "text-anchor": "end", fill: theme.faint }, label));
    return { svg, x, y };
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
      element("thead", {}, element("tr", {}, element("td", {}), ...captions.metrics.map((metric) => element("th", { scope: "col", title: metric.full }, metric.name)))),
      element("tbody", {}, ...captions.metrics.map((metric, i) => element("tr", {}, element("th", { scope: "row", title: metric.full }, metric.name),
        ...captions.metrics.map((_, k) => element("td", i === k ? { class: "self" } : { style: `--share:${Math.round(Math.max(0, value(i, k) || 0) * 100)}%` },
          i === k ? "" : Number.isNaN(value(i, k)) ? "–" : value(i, k).toFixed(2).replace("-", "−").replace(/^(−?)0\./, "$1."))))))));    capmeter.cue(at("correlations"));
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

  const redraw = () => figures.forEach((render) => render());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const printed = (now) => { printing = now; redraw(); };
  window.addEventListener("beforeprint", () => printed(true));
  window.addEventListener("afterprint", () => printed(false));
  return { redraw };
};
