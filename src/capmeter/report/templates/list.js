// The list of captions: search, filter, order, pages.
"use strict";

capmeter.list = (captions, evidence) => {
  const PAGE = 25;
  const { element, shown } = capmeter;
  const at = (id) => document.getElementById(id);
  const search = capmeter.index(captions.texts);
  const many = captions.systems.length > 1;
  const several = captions.metrics.length > 1;
  const state = { found: [], page: 0, region: null, open: new Set() };
  // at first: of metrics that are numbered (bleu-1, bleu-2 …) the last one, five in all, and the human judgment
  const stem = (m) => captions.metrics[m].name.replace(/-\d+$/, "");
  const different = captions.metrics.map((_, m) => m).filter((m) => m + 1 === captions.metrics.length || stem(m) !== stem(m + 1));
  const columns = new Set(different.filter((m, k) => k < 5 || captions.metrics[m].human));
  const options = (select, pairs) => select.append(...pairs.map(([value, text]) => element("option", { value }, text)));

  options(at("only-system"), [["", many ? "all systems" : captions.systems[0]], ...(many ? captions.systems.map((name, s) => [s, name]) : [])]);
  const noteCounts = new Map();
  captions.notes.forEach((note) => {
    const rows = noteCounts.get(note.reason) ?? new Set();
    note.rows.forEach((row) => rows.add(row));
    noteCounts.set(note.reason, rows);
  });
  options(at("only-note"), [["", "all captions"],
    ...[...noteCounts].map(([reason, rows]) => [`note:${reason}`, `${reason} (${rows.size.toLocaleString("en")})`]),
    ["explained", `with explanation (${evidence.count.toLocaleString("en")})`]]);
  const metricNames = captions.metrics.map((metric, m) => [m, metric.name]);
  options(at("order"), [["", "input"], ...metricNames, ...(several ? [["disagreement", "disagreement"]] : []), ["length", "length"]]);
  options(at("first-metric"), metricNames);
  options(at("second-metric"), metricNames);
  at("second-metric").value = captions.metrics.length - 1;
  at("columns").querySelector("fieldset").append(...captions.metrics.map((metric, m) =>
    element("label", { class: "check" }, element("input", { type: "checkbox", value: m, ...(columns.has(m) && { checked: true }),
      onchange: (event) => { event.target.checked ? columns.add(m) : columns.delete(m); show(); } }), " ", element("span", { title: metric.full }, metric.name))));

  // the views of the list that are asked for most: each button sets the controls, which stay as they are for the rest
  const lowest = String(Math.max(0, captions.metrics.findLastIndex((metric) => !metric.human)));
  const ends = at("views").dataset.ends;
  const lower = (m) => captions.metrics[m]?.lower;
  const views = [[lower(lowest) ? "Highest" : "Lowest", { order: lowest, direction: lower(lowest) ? "down" : "up" }], ...(several ? [["Most disagreed", { order: "disagreement", direction: "down" }]] : []),
    ...(noteCounts.has(ends) ? [["Truncated", { "only-note": `note:${ends}` }]] : []), ["Longest", { order: "length", direction: "down" }]];
  at("views").append(...views.map(([name, chosen]) => element("button", { type: "button", onclick: () => {
    at("only-note").value = at("order").value = "";
    for (const [id, value] of Object.entries(chosen)) at(id).value = value;
    changed();
  } }, name)));

  const orders = new Map();
  const ofMetric = (by) => by !== "" && by !== "disagreement" && by !== "length";
  const { rank } = captions;
  const pair = () => [Number(at("first-metric").value), Number(at("second-metric").value)];
  // every row's position under the chosen order, worst first; rows without a number come last either way
  const ordered = () => {
    const by = at("order").value;
    const key = by === "disagreement" ? `${by}${pair()}` : by;
    if (!orders.has(key)) {
      const rows = Uint32Array.from({ length: captions.rows }, (_, r) => r);
      if (by !== "") {
        let values = by === "length" ? rows.map((r) => captions.texts[captions.text[r]].length) : captions.scores[by];
        if (by === "disagreement") {
          const [a, b] = pair().map(rank);
          values = a.map((value, r) => Math.abs(value - b[r]));
        }
        const keyOf = values.map((value) => (Number.isNaN(value) ? Infinity : value));
        rows.sort((a, b) => (keyOf[a] < keyOf[b] ? -1 : keyOf[a] > keyOf[b] ? 1 : a - b));
      }
      orders.set(key, rows);
    }
    return orders.get(key);
  };

  const filter = () => {
    const hits = search(at("search").value);
    const deep = at("in-references").checked;
    const system = at("only-system").value === "" ? -1 : Number(at("only-system").value);
    const choice = at("only-note").value;
    const noted = choice.startsWith("note:") ? noteCounts.get(choice.slice(5)) : null;
    const wanted = (r) =>
      (system < 0 || captions.system[r] === system) && (!noted || noted.has(r)) && (choice !== "explained" || evidence.has(r)) &&
      (!state.region || state.region.rows.has(r)) &&
      (!hits || hits.every(({ hits, without }) =>
        without !== Boolean(hits[captions.text[r]] || (deep && captions.referencesOf(r).some((t) => hits[t])))));
    const rows = ordered();
    const down = at("direction").value === "down" && at("order").value !== "";
    state.found = [];
    const by = at("order").value;
    const numberless = (r) => ofMetric(by) && Number.isNaN(captions.scores[by][r]);
    const last = [];
    for (let k = 0; k < rows.length; k++) {
      const r = rows[down ? rows.length - 1 - k : k];
      if (wanted(r)) (numberless(r) ? last : state.found).push(r);
    }
    state.found.push(...last);
    state.page = 0;
    show();
  };

  const heads = () => {
    const sorted = at("order").value;
    const down = at("direction").value === "down";
    const cells = [...columns].sort((a, b) => a - b).map((m) => element("th", { scope: "col", class: "number",
      "aria-sort": sorted === String(m) ? (down ? "descending" : "ascending") : "none" },
      element("button", { type: "button", "data-metric": m, title: captions.metrics[m].full, onclick: () => {
        at("direction").value = at("order").value === String(m) && at("direction").value === "up" ? "down" : "up";
        at("order").value = m;
        changed();
        at("list").querySelector(`thead [data-metric="${m}"]`)?.focus();
      } }, captions.metrics[m].name.replace(/ · |, /g, (end) => end.trimEnd() + "\n"))));
    at("list").tHead.rows[0].replaceChildren(element("th", { scope: "col" }, "Caption"), ...cells);
  };

  const SHORT = 280;
  const row = (r) => {
    const text = captions.texts[captions.text[r]];
    const letters = text.length > SHORT ? Array.from(text.slice(0, 2 * SHORT)) : null;
    const open = state.open.has(r);
    const caption = element("button", { type: "button", class: "caption", "aria-expanded": String(open), "aria-controls": `detail-${r}`, "data-row": r, onclick: () => toggle(r) },
      text.trim() ? element("bdi", { dir: "auto" }, letters ? letters.slice(0, SHORT).join("") + "…" : text) : element("em", {}, text ? "(blank)" : "(empty)"));
    const facts = element("span", { class: "facts" });
    if (many) facts.append(element("i", { class: "dot", "data-system": captions.system[r] % 8 }), element("bdi", {}, captions.systems[captions.system[r]]), " · ");
    facts.append(element("bdi", { class: "id" }, captions.ids[captions.id[r]]));
    if (letters || at("order").value === "length") facts.append(` · ${text.length.toLocaleString("en")} characters`);
    for (const flag of captions.flags.get(r) ?? []) facts.append(" ", element("span", { class: "flag" }, flag));
    if (at("order").value === "disagreement") {
      const [a, b] = pair();
      facts.append(" · " + [a, b].map((m) => `${captions.metrics[m].name}: above ${Math.round(100 * rank(m)[r])}%`).join(", "));
    }
    const cells = [...columns].sort((a, b) => a - b).map((m) => element("td", { class: "number", "data-label": captions.metrics[m].name,
      style: `--share:${Math.round(100 * (rank(m)[r] || 0))}%` }, shown(captions.scores[m][r], captions.metrics[m].decimals)));
    const source = captions.imageSources[captions.image[r]]; // a linked one is loaded only when its caption is opened
    const thumbnail = source?.startsWith("data:") ? [element("img", { class: "thumbnail", src: source, alt: "", loading: "lazy" })] : [];
    const line = element("tr", { class: open ? "opened" : null }, element("td", { class: "text" }, ...thumbnail, caption, facts), ...cells);
    if (!open) return [line];
    return [line, element("tr", { class: "detail", id: `detail-${r}` }, element("td", { colspan: cells.length + 1 }, evidence.detail(r, at("order").value)))];
  };

  const toggle = (r) => {
    state.open.has(r) ? state.open.delete(r) : state.open.add(r);
    const button = at("list").querySelector(`button[data-row="${r}"]`);
    const line = button.closest("tr");
    if (line.nextElementSibling?.classList.contains("detail")) line.nextElementSibling.remove();
    line.replaceWith(...row(r));
    at("list").querySelector(`button[data-row="${r}"]`).focus({ preventScroll: true });
  };

  const show = () => {
    heads();
    const pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const rows = state.found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    at("list").tBodies[0].replaceChildren(...(rows.length ? rows.flatMap(row)
      : [element("tr", {}, element("td", { colspan: columns.size + 1, class: "nothing" }, "No matching captions. Remove a word from the search, or reset."))]));
    const noun = captions.rows === 1 ? "caption" : "captions";
    const total = captions.rows.toLocaleString("en");
    const number = state.found.length.toLocaleString("en");
    at("count").textContent = state.found.length === captions.rows ? `${total} ${noun}` : `${number} of ${total} ${noun}`;
    at("page").value = state.page + 1;
    at("page").max = pages;
    at("pages").textContent = pages.toLocaleString("en");
    at("previous").disabled = state.page === 0;
    at("next").disabled = state.page === pages - 1;
    at("region").hidden = !state.region;
    if (state.region) at("region").textContent = `${state.region.name} ×`;
    at("disagreement").hidden = at("order").value !== "disagreement";
    at("direction").disabled = at("order").value === "";
    const words = { disagreement: ["least first", "most first"], length: ["shortest first", "longest first"] }[at("order").value] ?? (lower(at("order").value) ? ["best first", "worst first"] : ["worst first", "best first"]);
    [...at("direction").options].forEach((option, k) => { option.textContent = words[k]; });
  };
  const changed = () => {
    const by = at("order").value;
    if (ofMetric(by)) columns.add(Number(by));
    if (by === "disagreement") pair().forEach((m) => columns.add(m));
    at("columns").querySelectorAll("input").forEach((box) => { box.checked = columns.has(Number(box.value)); });
    filter();
  };
  const turn = (pages) => {
    state.page += pages;
    show();
    at("captions").scrollIntoView({ block: "start" });
  };

  at("search").addEventListener("input", filter);
  for (const id of ["in-references", "only-system", "only-note", "direction"]) at(id).addEventListener("change", filter);
  for (const id of ["first-metric", "second-metric"]) at(id).addEventListener("change", changed);
  at("order").addEventListener("change", () => { at("direction").value = ["disagreement", "length"].includes(at("order").value) ? "down" : "up"; changed(); });
  at("previous").addEventListener("click", () => turn(-1));
  at("next").addEventListener("click", () => turn(1));
  at("page").addEventListener("change", () => { state.page = (Number(at("page").value) || 1) - 1; show(); });
  at("region").addEventListener("click", () => { state.region = null; filter(); at("search").focus(); });
  at("reset").addEventListener("click", () => {
    at("search").value = at("only-system").value = at("only-note").value = at("order").value = "";
    at("in-references").checked = false;
    at("direction").value = "up";
    state.region = null;
    state.open.clear();
    filter();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      at("search").focus();
    }
  });
  filter();
  return {
    only: (name, rows) => { state.region = { name, rows: new Set(rows) }; filter(); at("captions").scrollIntoView({ block: "start" }); at("region").focus({ preventScroll: true }); },
    refresh: show,
  };
};
