
"use strict";
// Tables sort by their heads, filter by a text and fold after some arms; pictures say the values of their marks. The page reads without all that.

const FEWEST_ROWS = 10; // that are worth a filter
const NEAR = 8; // pixels between the pointer and the marks whose values it shows

function key(row, column) {
  const cell = row.cells[column];
  const number = cell.dataset.value;
  return number === undefined ? cell.textContent.trim() : Number(number);
}

function compare(one, other, turn) { // numbers before texts; dashes last, whatever the direction
  const rank = value => (typeof value === "number" ? 0 : value === "–" || value === "" ? 2 : 1);
  if (rank(one) !== rank(other) || rank(one) === 2) return rank(one) - rank(other);
  return turn * (typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true }));
}

function sort(table, head, column) {
  const turn = head.ariaSort === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", turn < 0 ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => compare(key(one, column), key(other, column), turn));
  table.tBodies[0].append(...rows);
  showAll(table);
}

function showAll(table) {
  table.classList.remove("folded");
  const button = table.parentElement.nextElementSibling;
  if (button?.className === "all") button.remove();
}

function foldable(table, box) {
  if (!table.querySelector(".more")) return;
  table.classList.add("folded");
  const button = document.createElement("button");
  button.className = "all";
  const count = table.querySelectorAll(".more").length;
  button.textContent = `Show ${count} more row${count > 1 ? "s" : ""}`;
  button.addEventListener("click", () => showAll(table));
  box.after(button);
}

function sortable(table) {
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    if ("mixed" in head.dataset) continue; // milliseconds and bytes have no order
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head, column));
  }
}

function filterable(table, box) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FEWEST_ROWS) return;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("output");
  label.className = "filter";
  input.type = "search";
  input.setAttribute("aria-label", `Filter rows of ${box.getAttribute("aria-label")}`);
  label.append("Filter rows", input, count);
  input.addEventListener("input", () => {
    showAll(table);
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
    count.textContent = input.value.trim() ? `${rows.filter(row => !row.hidden).length} of ${rows.length} rows` : "";
  });
  box.before(label);
}

const values = document.getElementById("values");

function show(texts, x, y) {
  values.textContent = texts.join("\n");
  const { width, height } = values.getBoundingClientRect();
  values.style.left = `${Math.max(0, Math.min(x + 12, innerWidth - width - 4))}px`;
  values.style.top = `${Math.max(0, y + 16 + height > innerHeight ? y - height - 8 : y + 16)}px`;
}

function readable(box) {
  const marks = [...box.querySelectorAll(".marks rect")].map(rect => {
    const text = rect.querySelector("title").textContent;
    rect.replaceChildren(); // or the browser would show the title beside ours
    return { rect, text };
  });
  let at = -1;
  const leave = () => {
    marks[at]?.rect.classList.remove("mark");
    values.textContent = "";
  };
  box.addEventListener("pointermove", event => {
    leave();
    const near = marks.filter(({ rect }) => {
      const { left, right, top, bottom } = rect.getBoundingClientRect();
      const aside = Math.max(left - event.clientX, event.clientX - right, 0);
      const above = Math.max(top - event.clientY, event.clientY - bottom, 0);
      return Math.hypot(aside, above) < NEAR;
    });
    const texts = near.slice(0, 6).map(({ text }) => text);
    if (near.length > 6) texts.push(`and ${near.length - 6} more`);
    show(texts, event.clientX, event.clientY);
  });
  box.addEventListener("pointerleave", leave);
  box.addEventListener("blur", leave);
  box.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") leave();
    if (!step || !marks.length) return;
    event.preventDefault();
    leave();
    at = (at + step + marks.length) % marks.length;
    const { rect, text } = marks[at];
    rect.classList.add("mark");
    rect.scrollIntoView({ block: "nearest", inline: "nearest" });
    const { right, bottom } = rect.getBoundingClientRect();
    show([text], right, bottom);
  });
}

for (const box of document.querySelectorAll(".scroll")) {
  const table = box.querySelector("table");
  if (table) {
    sortable(table);
    filterable(table, box);
    foldable(table, box);
  } else {
    readable(box);
  }
}

const contents = document.querySelector("nav details");
const wide = matchMedia("(min-width: 75rem)");
const unfold = () => { contents.open = wide.matches; };
wide.addEventListener("change", unfold);
unfold();
const arrive = () => { // a link to a folded chapter opens it
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details")?.setAttribute("open", "");
};
addEventListener("hashchange", arrive);
arrive();
