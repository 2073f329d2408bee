// Decodes the data and starts the parts of the page.
"use strict";

(() => {
  const root = document.documentElement;
  const storedTheme = () => { try { return localStorage.getItem("capmeter-theme"); } catch { return null; } };
  if (storedTheme()) root.dataset.theme = storedTheme();

  const sortable = (table) => table.tHead.querySelectorAll("button").forEach((button, column) => button.addEventListener("click", () => {
    const head = button.closest("th");
    const up = head.getAttribute("aria-sort") === "descending" || (column === 0 && head.getAttribute("aria-sort") === "none");
    table.tHead.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value;
    const compare = column === 0 ? (a, b) => value(a).localeCompare(value(b)) : (a, b) => Number(value(a)) - Number(value(b));
    const rows = [...table.tBodies[0].rows].sort(compare);
    table.tBodies[0].append(...(up ? rows : rows.reverse()));
  }));

  const start = async () => {
    sortable(document.getElementById("score-table"));
    document.querySelectorAll(".scroll:not(#correlations)").forEach(capmeter.cue);
    const captions = capmeter.captions(await capmeter.load());
    const evidence = capmeter.evidence(captions);
    const list = capmeter.list(captions, evidence);
    const plots = capmeter.plots(captions, list.only);
    document.getElementById("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("capmeter-theme", root.dataset.theme); } catch { /* a page opened from a file may not store */ }
      plots.redraw();
    });
    root.dataset.ready = Math.round(performance.now()); // ms since the page was asked for
  };
  start().catch((problem) => {
    const broken = document.getElementById("broken");
    broken.hidden = false;
    broken.textContent = `The page's data could not be read (${problem.message}). It needs a browser from 2023 or later; or the file was truncated when copied.`;
    console.error(problem);
  });
})();
