for (const head of document.querySelectorAll(".sortable th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const table = head.closest("table");
    const down = head.getAttribute("aria-sort") !== "descending";
    const place = head.cellIndex, body = table.tBodies[0];
    for (const cell of head.parentElement.cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
    const order = (a, b) => {
      const x = value(a), y = value(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      const numbers = !isNaN(x) && !isNaN(y);
      return (numbers ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
  });
}
