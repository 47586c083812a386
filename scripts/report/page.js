// SPDX-License-Identifier: Apache-2.0
// Filter and sort of the results, and buttons that copy a command. The page is whole without it.
//
// A browser needs about 0.1 ms to lay out a row, and does so again after every filter. So only the
// first SHOWN hits are in the table; the other rows are kept outside of the document, where they
// cost nothing. A button puts all hits into the table.
"use strict";

const SHOWN = 40; // page.css hides later rows until the first `show`
const table = document.getElementById("tests");
const body = table.tBodies[0];
// The text is read once: to read that of all rows takes longer than to search it.
const rows = Array.from(body.rows, (row) => ({ row, text: row.textContent.toLowerCase() }));
const words = document.getElementById("words");
const outcome = document.getElementById("outcome");
const sim = document.getElementById("sim");
const more = document.getElementById("more");

function show(limit) {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = rows.filter(
    ({ row, text }) =>
      wanted.every((word) => text.includes(word)) &&
      (!outcome.value || row.dataset.outcome === outcome.value) &&
      (!sim.value || row.dataset.sim === sim.value),
  );
  const fragment = document.createDocumentFragment();
  for (const { row } of hits.slice(0, limit)) fragment.append(row);
  body.replaceChildren(fragment);
  document.getElementById("shown").textContent = `${hits.length} of ${rows.length} tests`;
  more.hidden = hits.length <= limit;
  more.textContent = `Show all ${hits.length} tests`;
}

const collator = new Intl.Collator();

function sortBy(column, heads) {
  const falling = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head) => head.setAttribute("aria-sort", "none"));
  heads[column].setAttribute("aria-sort", falling ? "descending" : "ascending");
  const numeric = heads[column].classList.contains("n");
  for (const one of rows) {
    const text = one.row.cells[column].textContent.trim();
    one.key = numeric ? Number(text) : text;
  }
  const order = numeric ? (a, b) => a.key - b.key : (a, b) => collator.compare(a.key, b.key);
  rows.sort(falling ? (a, b) => order(b, a) : order);
  show(SHOWN);
}

const heads = Array.from(table.tHead.rows[0].cells);
heads.forEach((head, column) => {
  if (head.classList.contains("plain")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sortBy(column, heads));
  head.replaceChildren(button);
  head.setAttribute("aria-sort", "none");
});

[words, outcome, sim].forEach((field) => field.addEventListener("input", () => show(SHOWN)));
more.addEventListener("click", () => show(Infinity));
addEventListener("beforeprint", () => show(Infinity));
const form = document.getElementById("filter");
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
show(SHOWN);
table.classList.add("ready");

for (const command of document.querySelectorAll(".command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(command); // seen, and there for Ctrl-C if the rest is refused
    navigator.clipboard?.writeText(command.textContent).then(
      () => (button.textContent = "copied"),
      () => (button.textContent = "press Ctrl-C"),
    );
  });
  command.after(" ", button);
}
