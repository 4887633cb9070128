// Makes the page's tables of class "sortable" sortable by their headings and filterable: by a choice for each column of words,
// and by any text.

import DataTable from "./dt_bundle.js";

const WORDS = ["Contestant", "Level", "Operation", "Direction", "Shape", "Type", "With", "Reached", "Verdict", "Passed on"];

// A phone shows few columns: at first one operation in one direction, of which no column need tell, so that times can be seen.
const NARROW = matchMedia("(max-width: 40rem)").matches;
const AT_FIRST = ["Operation", "Direction"];
const NOT_AT_FIRST = ["Level", "Reached"]; // contestants' names and the ratios say as much

// "32,768 × 1,024" is sorted by how many elements that is.
const elements = (shape) => shape.split(" × ").reduce((n, length) => n * Number(length.replaceAll(",", "")), 1);

function choice(column, heading) {
  const select = document.createElement("select");
  select.append(new Option("all", ""));
  for (const value of new Set(column.data().toArray())) select.append(new Option(value));
  const narrowDown = () => {
    if (NARROW) column.visible(select.value === "");
    column.search(select.value, { exact: select.value !== "" }).draw();
  };
  select.addEventListener("change", narrowDown);
  if (NARROW && AT_FIRST.includes(heading)) {
    select.selectedIndex = 1;
    narrowDown();
  }
  const label = document.createElement("label");
  label.append(heading, select);
  select.ariaLabel = heading; // else its name would have every choice in it
  return label;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const numbers = headings.flatMap((heading, i) => (WORDS.includes(heading) ? [] : [i]));
  const data = new DataTable(table, {
    paging: false,
    order: [], // as the page has it: the fastest of each shape first
    autoWidth: false,
    layout: { topStart: null, topEnd: "search", bottomStart: "info", bottomEnd: null },
    language: { search: "Any text", info: "_TOTAL_ rows", infoEmpty: "no rows", infoFiltered: "of _MAX_" },
    columnDefs: [
      { targets: numbers, type: "num-fmt" },
      { targets: headings.indexOf("Shape"), render: { sort: elements, _: (shape) => shape } },
    ],
  });
  const filters = document.createElement("div");
  filters.className = "filters";
  const words = headings.filter((heading) => WORDS.includes(heading));
  filters.append(...words.map((heading) => choice(data.column(headings.indexOf(heading)), heading)));
  data.table().container().prepend(filters);
  if (NARROW) headings.forEach((heading, i) => NOT_AT_FIRST.includes(heading) && data.column(i).visible(false));
}
