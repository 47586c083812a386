// SPDX-License-Identifier: Apache-2.0
// Filter and sort of the results, and buttons that copy a command. The page is whole without it.
"use strict";

const table = document.getElementById("tests");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
const words = document.getElementById("words");
const outcome = document.getElementById("outcome");
const sim = document.getElementById("sim");

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const fits =
      wanted.every((word) => text.includes(word)) &&
      (!outcome.value || row.dataset.outcome === outcome.value) &&
      (!sim.value || row.dataset.sim === sim.value);
    row.hidden = !fits;
    shown += fits;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} tests`;
}

function sortBy(column, heads) {
  const falling = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head) => head.setAttribute("aria-sort", "none"));
  heads[column].setAttribute("aria-sort", falling ? "descending" : "ascending");
  const numeric = heads[column].classList.contains("n");
  const value = (row) => row.cells[column].textContent.trim();
  rows.sort((a, b) => {
    const order = numeric ? Number(value(a)) - Number(value(b)) : value(a).localeCompare(value(b));
    return falling ? -order : order;
  });
  body.append(...rows);
}

const heads = Array.from(table.tHead.rows[0].cells);
heads.forEach((head, column) => {
  if (head.classList.contains("plain")) return;
  rows.forEach((row) => {
    if (head.classList.contains("n")) row.cells[column].dataset.label = head.textContent;
  });
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sortBy(column, heads));
  head.replaceChildren(button);
  head.setAttribute("aria-sort", "none");
});

[words, outcome, sim].forEach((field) => field.addEventListener("input", filter));
const form = document.getElementById("filter");
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
filter();

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
