// What makes the report easier where scripts run: numbers under the pointer, tables that sort. All text is text.
"use strict";
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  const show = (event, words) => {
    tip.textContent = words;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - width - 6);
    const below = event.clientY + 16 + height < innerHeight;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = (below ? event.clientY + 16 : event.clientY - height - 10) + "px";
  };

  const within = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));

  const cell = (event, svg, table, axes) => {
    const box = svg.getBoundingClientRect();
    const rows = table.tBodies[0].rows;
    const row = rows[within((event.clientY - box.top) / box.height, rows.length)];
    const column = 1 + within((event.clientX - box.left) / box.width, row.cells.length - 1);
    const heads = table.tHead.rows[0].cells;
    const bits = row.cells[column].textContent;
    if (!bits) return "";
    return `${axes.row} ${row.cells[0].textContent}, ${axes.column} ${heads[column].textContent}\n${bits} bits/value`;
  };

  const bin = (event, svg, table) => {
    const box = svg.getBoundingClientRect();
    const [, first, last] = svg.dataset.edges.split(" ").map(Number);
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const rows = table.tBodies[0].rows;
    const row = rows[Math.min(rows.length - 1, Math.floor((share * last) / first))];
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", 100 * share + "%");
    cursor.setAttribute("x2", 100 * share + "%");
    cursor.setAttribute("visibility", "visible");
    const heads = [...table.tHead.rows[0].cells];
    return heads
      .map((head, at) => [head.textContent, row.cells[at].textContent])
      .filter(([, words], at) => at < 1 || (words && words !== "0"))
      .map(([name, words]) => `${name} ${words}`)
      .join("\n");
  };

  for (const svg of document.querySelectorAll("svg[data-shape]")) {
    const title = svg.querySelector(":scope > title");
    const panel = svg.closest("[data-table]");
    const table = document.getElementById(panel.dataset.table);
    svg.setAttribute("aria-label", title.textContent);
    svg.removeAttribute("aria-labelledby");
    title.remove(); // else the browser's own tip lies over ours
    svg.addEventListener("pointermove", (event) => {
      const words = svg.dataset.shape === "grid" ? cell(event, svg, table, panel.dataset) : bin(event, svg, table);
      if (words) show(event, words);
      else tip.hidden = true;
    });
    svg.addEventListener("pointerleave", () => {
      tip.hidden = true;
      svg.querySelector(".cursor")?.setAttribute("visibility", "hidden");
    });
  }

  const number = (words) => (words === "" || words === "-" ? -Infinity : Number(words.replaceAll(",", "")));

  const sort = (head, table) => {
    const at = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    const key = (row) => row.cells[at].textContent;
    const numeric = rows.every((row) => !Number.isNaN(number(key(row))));
    rows.sort((a, b) => (numeric ? number(key(a)) - number(key(b)) : key(a).localeCompare(key(b))) * (up ? 1 : -1));
    table.tBodies[0].append(...rows);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      head.dataset.sort = "";
      head.tabIndex = 0;
      head.title = "sort";
      head.addEventListener("click", () => sort(head, table));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          sort(head, table);
        }
      });
    }
  }
})();
