// Shows the rows that contain all typed words and, if a state is selected, have a scenario in that state.
const byId = (id) => document.getElementById(id);
const rows = [...byId("row-table").rows];

function filter() {
  const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean), state = byId("filter-state")?.value ?? "";
  for (const row of rows) {
    const { text, states } = row.dataset;
    row.hidden = !words.every((word) => text.includes(word)) || (state !== "" && !states.split(" ").includes(state));
  }
  byId("filter-shown").value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
}

byId("filter").hidden = false;
byId("filter-text").addEventListener("input", filter);
byId("filter-state")?.addEventListener("change", filter);
filter();
