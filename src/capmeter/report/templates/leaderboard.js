document.querySelectorAll(".board thead th").forEach((head, column) => head.firstChild.onclick = () => {
  const table = head.closest("table"), body = table.tBodies[0], down = head.ariaSort !== "descending";
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (a, b) => isNaN(value(a)) || isNaN(value(b)) ? value(b).localeCompare(value(a)) : value(b) - value(a);
  table.querySelectorAll("th").forEach(each => each.ariaSort = "none");
  head.ariaSort = down ? "descending" : "ascending";
  body.append(...[...body.rows].sort((a, b) => down ? order(a, b) : order(b, a)));
});
