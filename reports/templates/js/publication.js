// Shows the locks that have what is asked for, and sorts them.
const byId = (id) => document.getElementById(id);
const table = byId("row-table"), rows = [...table.rows];
const boxes = [...document.querySelectorAll("#filter input[type=checkbox]")];
const words = (text) => text.split(" ").filter(Boolean);

function fits(row, text) {
  const { text: all, service, language, has, kept, fenced } = row.dataset;
  const survived = [...words(kept), ...(byId("filter-fenced").checked ? words(fenced) : [])];
  const chosen = (id, values) => byId(id).value === "" || values.includes(byId(id).value);
  return text.every((word) => all.includes(word))
    && chosen("filter-service", service.split("|")) && chosen("filter-language", [language])
    && boxes.every((box) => !box.checked
      || ((!box.dataset.has || words(has).includes(box.dataset.has))
        && (!box.dataset.kept || survived.includes(box.dataset.kept))));
}

const orders = {
  "": () => 0,
  kept: (row) => -words(row.dataset.kept).length,
  cost: (row) => (row.dataset.seconds === "" ? Infinity : Number(row.dataset.seconds)),
};

function filter() {
  const text = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) row.hidden = !fits(row, text);
  byId("filter-shown").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} locks`;
}

function sort() {
  const rank = new Map(rows.map((row, i) => [row, [orders[byId("filter-order").value](row), i]]));
  const before = ([a, i], [b, j]) => (a === b ? i - j : a < b ? -1 : 1);
  table.append(...[...rows].sort((one, other) => before(rank.get(one), rank.get(other))));
}

byId("filter").hidden = false;
byId("filter").addEventListener("input", filter);
byId("filter-order").addEventListener("input", sort);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
filter();
