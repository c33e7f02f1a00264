// The run as the page was given it: columns of numbers (written by reports/timeline.py), and searches in them.

const OUTCOMES = ["ok", "fail", "info"];

function sums(differences) {
  const values = new Float64Array(differences.length);
  let total = 0;
  for (let i = 0; i < values.length; i++) values[i] = total += differences[i];
  return values;
}

function readRun(text) {
  const run = JSON.parse(text);
  run.end = Math.max(run.end, 1);
  run.calls.start = sums(run.calls.start);
  run.calls.invoked = sums(run.calls.invoked);
  run.holds.start = sums(run.holds.start);
  run.holds.acquired = sums(run.holds.acquired);
  const callsByLane = byLane(run.calls, run.recorded, run.clients.length);
  const holdsByLane = byLane(run.holds, run.recorded, run.clients.length);
  run.lanes = run.clients.map((name, i) => ({ name, calls: callsByLane[i], holds: holdsByLane[i] }));
  run.texts[-1] = "";
  run.manyKeys = new Set(run.holds.key).size > 1;
  run.usualHold = run.holds.took.reduce((sum, took) => sum + Math.max(took, 0), 0) / Math.max(run.holds.took.length, 1);
  return run;
}

// For each lane: the rows in order of their start, and for each row the latest end of it and all before it. That grows,
// so the first row that reaches into a view is found by halving, however long an early row lasts.
function byLane(columns, end, count) {
  const lanes = Array.from({ length: count }, () => ({ rows: [], reach: [] }));
  for (let i = 0; i < columns.start.length; i++) {
    const lane = lanes[columns.lane[i]];
    const last = lane.reach.length ? lane.reach[lane.reach.length - 1] : 0;
    lane.rows.push(i);
    lane.reach.push(Math.max(last, endOf(columns, i, end)));
  }
  return lanes;
}

function endOf(columns, i, end) {
  return columns.took[i] < 0 ? end : columns.start[i] + columns.took[i];
}

// The first position in ascending values that is at least wanted.
function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

// Calls visit(row) for the rows of a lane that touch [from, until], in order of their start.
function eachVisible(columns, lane, from, until, visit) {
  for (let i = lowerBound(lane.reach, from); i < lane.rows.length; i++) {
    const row = lane.rows[i];
    if (columns.start[row] > until) break;
    visit(row);
  }
}

function offsetAt(steps, time) {
  let value = 0;
  for (const [at, offset] of steps) if (at <= time) value = offset;
  return value;
}

function seconds(us, digits = 3) {
  return (us / 1e6).toFixed(digits) + " s";
}

function span(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return Number((us / 1e6).toPrecision(3)) + " s";
  if (size >= 1e3) return Number((us / 1e3).toPrecision(3)) + " ms";
  return us + " µs";
}

function signed(us) {
  return us === 0 ? "true" : (us > 0 ? "+" : "−") + span(Math.abs(us));
}
