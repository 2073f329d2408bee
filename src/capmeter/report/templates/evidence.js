// One opened caption: its references and image, the evidence behind each score, and other captions of the image.
"use strict";

capmeter.evidence = (captions) => {
  const { element, shown } = capmeter;
  const evidence = captions.evidence;
  const byRow = new Map();
  for (const [m, r, ...rest] of evidence.records) {
    if (!byRow.has(r)) byRow.set(r, new Map());
    byRow.get(r).set(m, rest);
  }
  // mappings of a list are { kind: columns }; the names of the columns are those of the kind
  const unpack = (value) => {
    if (Array.isArray(value)) return value.map(unpack);
    if (value === null || typeof value !== "object") return value;
    const [[kind, content] = []] = Object.entries(value);
    if (kind === undefined) return value;
    if (kind === "words") return evidence.sequences[content];
    if (kind === "one") return unpack(content)[0];
    const columns = content.map(unpack);
    return columns[0].map((_, row) => Object.fromEntries(evidence.kinds[kind].map((name, k) => [name, columns[k][row]])));
  };
  // the side of a mark or sentence: -1 for the caption, else the number of the reference
  const sideOf = (each) => (each.side === "candidate" ? -1 : each.reference_index ?? -1);
  const arrange = (found) => ({
    ...found,
    links: found.links.map(({ reference_index, reference, ...link }) => ({ ...link, reference: reference_index, place: reference })),
    marks: found.marks.map((mark) => ({ ...mark, reference: sideOf(mark) })),
    members: Object.entries(found.members ?? {}).map(([name, each]) => [name, arrange(each)]),
    sentences: (found.sentences ?? []).map((each) => ({ ...each, side: sideOf(each) })),
  });
  const kindNumbers = new Map();
  const colour = (kind) => (kindNumbers.get(kind) ?? kindNumbers.set(kind, kindNumbers.size).get(kind)) % 8;
  const STRUCK = /cut|removed|deleted/;
  const PLAIN = /unmatched/;
  const WRONG = /hallucinated|contradicted|unsupported/;
  const EFFECT = /^(raises|lowers)$/;
  const markClass = (kind) => (STRUCK.test(kind) ? "struck" : WRONG.test(kind) ? "wrong" : EFFECT.test(kind) ? kind : PLAIN.test(kind) ? "unmatched" : "marked");

  // a line of tokens, each styled by its strongest link and by its marks
  const line = (tokens, links, marks, most) => {
    const best = new Map();
    links.forEach(({ place: [from, to], kind, weight, key }) => {
      for (let i = from; i < to; i++) {
        const known = best.get(i);
        const keys = [...(known?.keys ?? []), key];
        if (!known || to - from > known.length || (to - from === known.length && weight > known.weight)) best.set(i, { kind, weight, length: to - from, keys });
        else known.keys = keys;
      }
    });
    const line = element("span", { class: "tokens", dir: "auto" });
    tokens.forEach((token, i) => {
      const link = best.get(i);
      const mine = marks.filter(({ place: [from, to] }) => from <= i && i < to);
      const says = [...(link ? [`${link.kind}, weight ${number(link.weight)}`] : []),
        ...mine.map(({ kind, weight }) => kind + (weight !== 1 ? ` ${number(weight)}` : ""))];
      const classes = ["token", ...(link ? ["linked"] : []),
        ...mine.map(({ kind }) => markClass(kind))];
      line.append(element("span", { class: classes.join(" "), title: says.join("; ") || null, "data-kind": link ? colour(link.kind) : null,
        "data-keys": link ? link.keys.join(" ") : null, style: link ? `--weight:${strength(link.weight, most)}` : null }, token), " ");
    });
    return line;
  };
  const strength = (weight, most) => (0.3 + 0.7 * Math.min(1, Math.max(0, weight / (most || 1)))).toFixed(2);
  const number = (value) => String(Math.round(value * 1000) / 1000).replace("-", "−");

  const explanation = (r, m) => explained(arrange(unpack(byRow.get(r).get(m)[0])), r);
  const factline = ({ facts }) => (Object.keys(facts).length ? [element("p", { class: "factline" }, ...Object.entries(facts).flatMap(([name, value]) =>
    [element("span", {}, `${name} `, element("b", {}, typeof value === "number" ? number(value) : String(value))), " "]))] : []);
  // a metric made of metrics: its parts, and the explanation of each member under the member's name
  const together = (found, r) => element("div", { class: "explanation" }, ...factline(found),
    ...(found.contributions ? [contributions(found.contributions)] : []),
    ...found.members.map(([name, each]) => element("section", { class: "member", "aria-label": name }, element("h4", { class: "small" }, name), explained(each, r))));
  const explained = (found, r) => {
    if (found.members.length) return together(found, r);
    const most = Math.max(...found.links.map((link) => Math.abs(link.weight)), 1e-9);
    found.links.forEach((link, key) => { link.key = key; });
    const box = element("div", { class: "explanation" });
    const lines = element("dl", { class: "lines" });
    lines.append(element("dt", {}, "caption"), element("dd", {}, line(found.candidate,
      found.links.map((link) => ({ ...link, place: link.candidate })), found.marks.filter(({ reference }) => reference < 0), most)));
    found.references.forEach((tokens, k) => {
      lines.append(element("dt", {}, found.references.length > 1 ? `reference ${k + 1}` : "reference"), element("dd", {}, line(tokens,
        found.links.filter(({ reference }) => reference === k), found.marks.filter(({ reference }) => reference === k), most)));
    });
    const glow = (event) => {
      const keys = (event.target.dataset?.keys ?? "").split(" ").filter(Boolean);
      box.querySelectorAll(".glow").forEach((token) => token.classList.remove("glow"));
      if (keys.length) box.querySelectorAll("[data-keys]").forEach((token) => token.classList.toggle("glow", token.dataset.keys.split(" ").some((key) => keys.includes(key))));
    };
    lines.addEventListener("mouseover", glow);
    lines.addEventListener("mouseleave", glow);
    const wordsBox = element("div", { class: "words", tabindex: "0", role: "region", "aria-label": "Words of the caption and its references" }, lines);
    box.append(...(found.sentences.length ? [documentView(found, most), folded("All words in order", wordsBox)] : [wordsBox]));
    const kinds = [...new Set(found.links.map(({ kind }) => kind))].sort((a, b) => a.localeCompare(b));
    const legend = element("p", { class: "kinds" }, ...kinds.map((kind) => element("span", { class: "token linked", "data-kind": colour(kind), style: "--weight:.8" }, kind)));
    const markKinds = [...new Set(found.marks.map(({ kind }) => kind))];
    for (const kind of markKinds) legend.append(element("span", { class: "token " + markClass(kind) }, kind));
    if (kinds.length + markKinds.length) box.append(legend);
    box.append(...factline(found));
    if (found.contributions) box.append(contributions(found.contributions));
    if (found.regions) box.append(attended(found.regions, r));
    if (found.scene) box.append(found.sentences.length ? folded("Scene graphs", scenes(found.scene)) : scenes(found.scene));
    else if (found.links.length) box.append(matches(found));
    else if (!found.regions) box.append(element("p", { class: "note" }, "No word of the caption was matched."));
    return box;
  };
  const folded = (title, content) => element("details", { class: "matches" }, element("summary", {}, title), content);
  // a document: its sentences and those of the references by verdict, what is wrong first and the rest folded, with a search inside
  const VERDICTS = [["contradicted", true], ["unsupported", true], ["missing", true], ["supported", false], ["covered", false]];
  const SIDES = { missing: "missing: in a reference, not in the caption", covered: "covered: in a reference and in the caption" };
  const documentView = (found, most) => {
    const tokensOf = (side) => (side < 0 ? found.candidate : found.references[side]);
    const inside = (items, [from, to]) => items.filter(({ place: [a, b] }) => a < to && b > from).map((each) => ({ ...each, place: each.place.map((at) => at - from) }));
    const sentence = ({ side, place, score, judged_by, verdict }) => {
      const links = found.links.filter(({ reference }) => side < 0 || reference === side).map((link) => ({ ...link, place: side < 0 ? link.candidate : link.place }));
      const marks = found.marks.filter(({ reference }) => reference === side);
      const item = element("li", {}, line(tokensOf(side).slice(...place), inside(links, place), inside(marks, place), most), element("span", { class: "quiet-number" }, number(score)));
      if (verdict !== "supported" && verdict !== "covered")
        item.append(...judged_by.map((text) => element("p", { class: "nearest", dir: "auto" }, side < 0 ? "nearest in the reference: " : "nearest in the caption: ", element("bdi", {}, text))));
      return item;
    };
    const groups = VERDICTS.map(([verdict, open]) => {
      const every = found.sentences.filter((each) => each.verdict === verdict);
      if (!every.length) return null;
      const list = element("ol", { class: "sentences" }, ...every.map(sentence));
      const count = element("span", { class: "quiet-number" }, String(every.length));
      return { open, list, count, total: every.length, box: element("details", { class: `verdict ${verdict}`, ...(open && { open: true }) }, element("summary", {}, SIDES[verdict] ?? verdict, " ", count), list) };
    }).filter(Boolean);
    const nothing = element("p", { class: "note", "aria-live": "polite" });
    const search = element("input", { type: "search", placeholder: "Search these sentences", "aria-label": "Search these sentences", oninput: (event) => {
      const wanted = event.target.value.trim().toLowerCase();
      let hits = 0;
      for (const group of groups) {
        const items = [...group.list.children];
        items.forEach((item) => { item.hidden = !item.firstChild.textContent.toLowerCase().includes(wanted); });
        const left = items.filter((item) => !item.hidden).length;
        hits += left;
        group.count.textContent = wanted ? `${left} of ${group.total}` : String(group.total);
        group.box.open = wanted ? left > 0 : group.open;
      }
      nothing.textContent = wanted && !hits ? "No sentence has these words." : "";
    } });
    return element("div", { class: "document" }, search, nothing, ...groups.map(({ box }) => box));
  };
  // two scene graphs beside each other: objects, beside them their attributes, below them their relations
  const scenes = ({ candidate_graph, reference_graph, tuples }) => {
    const side = (title, graph, name) => scene(title, graph, tuples.filter((each) => each.side === name));
    return element("div", {},
      element("div", { class: "scenes", tabindex: "0", role: "region", "aria-label": "Scene graphs" },
        side("What the caption says", candidate_graph, "candidate"), side("What the references say", reference_graph, "reference")),
      element("p", { class: "kinds" }, element("span", { class: "said agreed" }, "on both sides"), element("span", { class: "said" }, "on this side alone")));
  };
  const MOST = 100; // objects, attributes and relations of a graph that are shown
  const tuple = (words) => (words.length === 3 ? words.join(" – ") : [...words].reverse().join(" "));
  const scene = (title, { objects, attributes, relations }, tuples) => {
    const said = (words, place, kind) => element("span", { class: `said ${kind}${tuples[place].matched ? " agreed" : ""}`,
      title: tuples[place].nearest ? `nearest on the other side: ${tuple(tuples[place].nearest)}` : null }, element("bdi", {}, words.join("/") || "–"));
    const lines = objects.slice(0, MOST).map((words, k) => element("li", {}, said(words, k, "thing")));
    const owned = attributes.map((each, k) => [k, ...each]).filter(([, owner]) => owner < MOST).slice(0, MOST);
    for (const [k, owner, words] of owned) lines[owner].append(" ", said(words, objects.length + k, "quality"));
    const below = new Map();
    const related = relations.map((each, k) => [k, ...each]).filter(([, a, , b]) => Math.max(a, b) < MOST).slice(0, MOST);
    for (const [k, subject, words, thing] of related) {
      if (!below.has(subject)) lines[subject].append(below.set(subject, element("ul", {})).get(subject));
      below.get(subject).append(element("li", {}, said(words, objects.length + attributes.length + k, "quality"), " → ", element("bdi", {}, objects[thing].join("/"))));
    }
    const more = tuples.length - lines.length - owned.length - related.length;
    return element("figure", { class: "scene" }, element("figcaption", {}, title),
      lines.length ? element("ul", {}, ...lines) : element("p", { class: "note" }, "nothing that makes a graph"),
      ...(more ? [element("p", { class: "note" }, `and ${more} more`)] : []));
  };
  // a learned score's logit as a sum: what each input contributed, the largest first
  const contributions = ({ base, base_logit, logit, inputs }) => {
    const ordered = [...inputs].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
    const most = Math.max(...ordered.map((each) => Math.abs(each.contribution)), 1e-9);
    return element("div", { class: "matches" },
      element("p", { class: "note" }, `logit ${number(logit)} = ${number(base_logit)} (${base}) + contributions`),
      element("table", { class: "contributions" }, element("thead", {}, element("tr", {}, ...["input", "value", base, "contribution", ""].map((head, k) =>
        element("th", { scope: "col", class: k > 0 && k < 4 ? "number" : null }, head)))),
      element("tbody", {}, ...ordered.map(({ input, value, base_value, contribution: part }) => element("tr", {}, element("td", {}, input),
        ...[value, base_value, part].map((each) => element("td", { class: "number" }, number(each))),
        element("td", {}, element("span", { class: part < 0 ? "bar less" : "bar", style: `--share:${(Math.abs(part) / most).toFixed(3)}` })))))));
  };
  const matches = (found) => {
    const LONGEST = 100;
    const links = [...found.links].sort((a, b) => b.weight - a.weight);
    const cut = links.length > LONGEST ? `the ${LONGEST} heaviest of ` : "";
    return element("details", { class: "matches" }, element("summary", {}, `All matches (${cut}${links.length})`),
      element("table", {}, element("thead", {}, element("tr", {}, ...["kind", "caption", "reference", "weight"].map((head, k) =>
        element("th", { scope: "col", class: k === 3 ? "number" : null }, head)))),
      element("tbody", {}, ...links.slice(0, LONGEST).map((link) => element("tr", {}, element("td", {}, link.kind),
        element("td", {}, element("bdi", {}, found.candidate.slice(...link.candidate).join(" "))),
        element("td", {}, element("bdi", {}, found.references[link.reference].slice(...link.place).join(" ")), found.references.length > 1 ? ` (${link.reference + 1})` : ""),
        element("td", { class: "number" }, number(link.weight)))))));
  };

  // the image with the regions of the largest weights, the heavier the stronger, and a table of the weights
  const attended = (regions, r) => {
    const heaviest = regions.weights.map((weight, k) => ({ weight, box: regions.boxes[k], label: regions.labels[k] || "" }))
      .sort((a, b) => b.weight - a.weight).slice(0, 12);
    const most = Math.max(...regions.weights, 1e-9);
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", "0 0 1000 1000");
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", "Attention over regions of the image");
    heaviest.forEach(({ weight, box, label }) => {
      const [left, top, right, bottom] = box.map((each) => 1000 * each);
      const frame = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      Object.entries({ x: left, y: top, width: right - left, height: bottom - top, style: `--share:${(weight / most).toFixed(3)}` })
        .forEach(([name, value]) => frame.setAttribute(name, value));
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = `${label || "region"} ${number(weight)}`;
      frame.append(title);
      drawing.append(frame);
    });
    const source = captions.imageSources[captions.image[r]];
    const image = source ? [element("img", { src: source, alt: "", loading: "lazy", referrerpolicy: "no-referrer" })] : [];
    const rows = heaviest.map(({ weight, label }, k) => element("tr", {}, element("td", {}, element("bdi", {}, label || `region ${k + 1}`)),
      element("td", { class: "number" }, number(weight)), element("td", {}, element("span", { class: "bar", style: `--share:${(weight / most).toFixed(3)}` }))));
    return element("div", { class: "sides attended" }, element("figure", { class: image.length ? "seen" : "seen bare" }, ...image, drawing),
      element("table", { class: "contributions" }, element("thead", {}, element("tr", {}, ...["region", "attention", ""].map((head, k) =>
        element("th", { scope: "col", class: k === 1 ? "number" : null }, head)))), element("tbody", {}, ...rows)));
  };

  const picture = (r) => {
    const source = captions.imageSources[captions.image[r]];
    if (!source) return null;
    const image = element("img", { src: source, alt: "", loading: "lazy", referrerpolicy: "no-referrer" });
    const frame = element("figure", { class: "picture" }, image);
    image.addEventListener("error", () => frame.replaceChildren(element("figcaption", { class: "note" }, "image not found: ", element("bdi", {}, source.slice(0, 200)))));
    return frame;
  };

  const detail = (r, ordering) => {
    const box = element("div", { class: "opened-caption" });
    const left = element("div", {});
    const text = captions.texts[captions.text[r]];
    if (text.length > 280) left.append(element("p", { class: "whole", dir: "auto", tabindex: "0" }, text));
    const references = captions.referencesOf(r);
    left.append(element("h3", { class: "small" }, references.length === 1 ? "Reference" : "References"),
      references.length ? element("ul", { class: "references" }, ...references.map((t) => element("li", { dir: "auto" }, captions.texts[t])))
        : element("p", { class: "note" }, "No references."));
    const others = captions.sameImage.get(captions.image[r]).filter((other) => other !== r);
    const image = picture(r);
    box.append(element("div", { class: "sides" }, left, ...(image ? [image] : [])));
    const mine = byRow.get(r);
    if (mine) {
      const metrics = [...mine.keys()].sort((a, b) => a - b);
      const place = element("div", { "aria-live": "polite" });
      const choose = (m) => {
        bar.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.metric) === m)));
        place.replaceChildren(explanation(r, m));
      };
      const bar = element("div", { class: "choices", role: "group", "aria-label": "Explanation by metric" }, ...metrics.map((m) =>
        element("button", { type: "button", "data-metric": m, title: captions.metrics[m].full, onclick: () => choose(m) }, captions.metrics[m].name, " ",
          element("span", { class: "quiet-number" }, shown(captions.scores[m][r], captions.metrics[m].decimals)))));
      box.append(element("h3", { class: "small" }, "Why this score"), bar, place);
      choose(ordering !== "" && mine.has(Number(ordering)) ? Number(ordering) : metrics[0]);
    } else {
      box.append(element("p", { class: "note" }, evidence.records.length
        ? "This page has no explanation for this caption (the note below the list says which have one); to get it: "
        : "This page has no explanations; to get one:  ", element("code", {}, "capmeter explain … --id "), element("code", {}, captions.ids[captions.id[r]])));
    }
    if (others.length) {
      const metrics = captions.metrics.map((_, m) => m).slice(0, 6);
      const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Other captions of this image" }, element("table", { class: "others" },
        element("thead", {}, element("tr", {}, ...["", "Caption"].map((head) => element("th", { scope: "col" }, head || element("span", { class: "hidden" }, "System"))),
          ...metrics.map((m) => element("th", { scope: "col", class: "number", title: captions.metrics[m].full }, captions.metrics[m].name)))),
        element("tbody", {}, ...others.slice(0, 50).map((other) => element("tr", {},
          element("th", { scope: "row" }, element("i", { class: "dot", "data-system": captions.system[other] % 8 }), element("bdi", {}, captions.systems[captions.system[other]])),
          element("td", {}, element("bdi", { dir: "auto" }, captions.texts[captions.text[other]].slice(0, 400) || "(empty)")),
          ...metrics.map((m) => element("td", { class: "number" }, shown(captions.scores[m][other], captions.metrics[m].decimals))))))));
      const heading = element("h3", { class: "small" }, "Other captions of this image");
      box.append(heading, table);
      capmeter.cue(table);
    }
    return box;
  };
  return { has: (r) => byRow.has(r), count: byRow.size, detail };
};
