// The cursor: one mark of one row (a fault, a call or hold of a client, a key or clock of a server, a token). It is moved
// by keys or by a search. Its tooltip is shown and announced, so that all tooltips are reachable without a pointer.

function cursorRows(state) {
  const { layout, run } = state;
  const rows = [];
  if (run.faults.some((fault) => fault.from !== null)) rows.push({ name: "faults", marks: [sortedTimes(run.faults.map((fault) => fault.from).filter((from) => from !== null))], y: faultY });
  run.lanes.forEach((lane, i) => rows.push({ name: lane.name, marks: [startsOf(run.calls, lane.calls), startsOf(run.holds, lane.holds)], y: () => laneTop(layout, i) + 24 }));
  run.servers.forEach((name, i) => {
    const steps = sortedTimes((run.offsets[name] || []).map(([at]) => at));
    rows.push({ name, marks: [layout.keyRow ? startsOf(run.stays, stayLane(state, i)) : sortedTimes([]), steps], y: () => serverTop(layout, i) + 12 });
  });
  const grants = run.tokens?.grants.of[state.key];
  if (grants) rows.push({ name: "tokens", marks: [sortedTimes(grants.times), sortedTimes(run.tokens.shown.of[state.key].times)], y: shownTokenY });
  return rows;
}

function sortedTimes(times) {
  const sorted = [...times].sort((a, b) => a - b);
  return { length: sorted.length, at: (i) => sorted[i] };
}

function startsOf(columns, lane) {
  return { length: lane.rows.length, at: (i) => columns.start[lane.rows[i]] };
}

function faultY(state, time) {
  return AXIS + Math.max(state.layout.rows[state.run.faults.findIndex((fault) => fault.from === time)], 0) * FAULT_ROW + 8;
}

function shownTokenY(state, time) {
  const { shown } = state.run.tokens, its = shown.of[state.key], row = its.rows[its.times.indexOf(time)];
  return row === undefined ? state.layout.tokens + TOKENS / 2 : tokenY(state, shown.token[row]);
}

// The nearest time in an ascending list after (direction 1) or before (direction -1) a time; undefined without one.
function neighbour(list, time, direction) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (direction > 0 ? list.at(middle) <= time : list.at(middle) < time) low = middle + 1; else high = middle;
  }
  const i = direction > 0 ? low : low - 1;
  return i >= 0 && i < list.length ? list.at(i) : undefined;
}

function stepCursor(state, direction) {
  const rows = cursorRows(state), { view } = state;
  state.cursor ??= { row: Math.max(rows.findIndex((row) => row.name !== "faults"), 0), time: direction > 0 ? view.from : view.until };
  const row = rows[Math.min(state.cursor.row, rows.length - 1)];
  const times = row.marks.map((list) => neighbour(list, state.cursor.time, direction)).filter((time) => time !== undefined);
  if (!times.length) return announce(state, `No ${direction > 0 ? "later" : "earlier"} mark in the row ${row.name}.`);
  state.cursor.time = direction > 0 ? Math.min(...times) : Math.max(...times);
  showCursor(state);
}

// Another row: the cursor moves to its last mark up to the present time, or else to its first one.
function changeRow(state, by) {
  const rows = cursorRows(state);
  const before = state.cursor ?? { row: by > 0 ? -1 : rows.length, time: (state.view.from + state.view.until) / 2 };
  const index = Math.min(Math.max(before.row + by, 0), rows.length - 1), row = rows[index];
  const earlier = row.marks.map((list) => neighbour(list, before.time + 1, -1)).filter((time) => time !== undefined);
  const first = row.marks.filter((list) => list.length).map((list) => list.at(0));
  state.cursor = { row: index, time: before.time };
  if (!earlier.length && !first.length) return announce(state, `The row ${row.name} has no mark.`);
  state.cursor.time = earlier.length ? Math.max(...earlier) : Math.min(...first);
  showCursor(state);
}

function putCursor(state, name, time) {
  state.cursor = { row: cursorRows(state).findIndex((row) => row.name === name), time };
  showCursor(state);
}

function showCursor(state) {
  const { cursor, view } = state, row = cursorRows(state)[cursor.row], width = view.until - view.from;
  if (cursor.time < view.from || cursor.time > view.until) setView(state, cursor.time - width / 2, cursor.time + width / 2);
  const x = xOf(state, cursor.time);
  state.pointer = x;
  showTip(state, x, row.y(state, cursor.time));
  const lines = [...state.tip.children].map((line) => line.textContent);
  announce(state, state.tip.hidden ? `${row.name} at ${seconds(cursor.time, 6)}` : lines.join("; "));
  refresh(state);
}

function announce(state, text) {
  state.said.textContent = text;
}
