// The data of the run: columns of numbers (written by reports/timeline.py), and searches in them.

const OUTCOMES = ["ok", "fail", "info"];

const ENDS = ["open", "released", "expired", "early", "removed", "no answer", "not recorded"];
const SIZES = { b: Int8Array, h: Int16Array, i: Int32Array, d: Float64Array };

// Data as reports/columns.py compresses it. column(text) is the column that a text in the data stands for: a letter for
// the size of its numbers, its first byte, and its number of values.
async function decompress(text) {
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer(), length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))), base = 8 * Math.ceil((4 + length) / 8);
  const column = (text) => {
    const [letter, begun, count] = text.split(":");
    return new SIZES[letter](buffer, base + Number(begun), Number(count));
  };
  return { data, column };
}

function sums(differences) {
  const values = new Float64Array(differences.length);
  let total = 0;
  for (let i = 0; i < values.length; i++) values[i] = total += differences[i];
  return values;
}

function readTable(table, column, ...rising) {
  for (const name of Object.keys(table)) table[name] = column(table[name]);
  for (const name of rising) table[name] = sums(table[name]);
}

// The run in what decompress returns.
function readRun({ data: run, column }) {
  run.end = Math.max(run.end, 1);
  readTable(run.calls, column, "start", "invoked");
  readTable(run.holds, column, "start", "acquired");
  readTable(run.stays, column, "start");
  const callsByLane = byLane(run.calls, run.recorded, run.clients.length);
  const holdsByLane = byLane(run.holds, run.recorded, run.clients.length);
  run.lanes = run.clients.map((name, i) => ({ name, calls: callsByLane[i], holds: holdsByLane[i] }));
  run.stayLanes = byLane(run.stays, run.recorded, run.servers.length * run.keys.length);
  run.acquire = run.texts.indexOf("acquire");
  run.tone = run.texts.map((text) => run.clients.indexOf(text));
  run.texts[-1] = "";
  run.manyKeys = run.keys.length > 1;
  run.usualHold = run.holds.took.reduce((sum, took) => sum + Math.max(took, 0), 0) / Math.max(run.holds.took.length, 1);
  if (run.tokens) readTokens(run, column);
  return run;
}

// Grants and accesses of each key, in the order of time.
function readTokens(run, column) {
  for (const name of ["grants", "shown"]) {
    const table = run.tokens[name];
    readTable(table, column, "time");
    table.of = Object.fromEntries(run.keys.map((key) => [key, { rows: [], times: [] }]));
    for (let i = 0; i < table.time.length; i++) {
      const its = table.of[run.texts[table.key[i]]];
      if (its) its.rows.push(i), its.times.push(table.time[i]);
    }
  }
}

// For each lane: the rows in order of their start, and for each row the latest end up to it. The ends are ascending, so
// binary search finds the first row that reaches into a view, however long an early row lasts.
function byLane(columns, end, count) {
  const sizes = new Int32Array(count), rows = columns.start.length;
  for (let i = 0; i < rows; i++) sizes[columns.lane[i]]++;
  const lanes = Array.from(sizes, (size) => ({ rows: new Int32Array(size), reach: new Float64Array(size) }));
  sizes.fill(0);
  for (let i = 0; i < rows; i++) {
    const lane = lanes[columns.lane[i]], at = sizes[columns.lane[i]]++;
    lane.rows[at] = i;
    lane.reach[at] = Math.max(at ? lane.reach[at - 1] : 0, endOf(columns, i, end));
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

// The offset of a clock, µs. A clock that runs too fast or too slow has a rate since its last step: seconds that it gains
// in one.
function offsetAt(steps, time) {
  const [at, offset, rate = 0] = stepOfClock(steps, time);
  return Math.round(offset + rate * (time - at));
}

function stepOfClock(steps, time) {
  let found = [0, 0];
  for (const step of steps) if (step[0] <= time) found = step;
  return found;
}

function seconds(us, digits = 3) {
  return (us / 1e6).toFixed(digits) + " s";
}

// The number of digits that distinguish times that are at least so many µs apart: at least milliseconds.
function digitsFor(us) {
  return Math.min(Math.max(3, Math.ceil(6 - Math.log10(us))), 6);
}

function span(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return Number((us / 1e6).toPrecision(3)) + " s";
  if (size >= 1e3) return Number((us / 1e3).toPrecision(3)) + " ms";
  return us + " µs";
}

function paceText(rate) {
  return rate ? `, then ${Math.round(Math.abs(rate) * 100)} % too ${rate > 0 ? "fast" : "slow"}` : "";
}

// The reading of a wall clock compared with true time: "correct", "12 s ahead" or "19 s behind".
function clockText(us) {
  return us === 0 ? "correct" : `${span(Math.abs(us))} ${us > 0 ? "ahead" : "behind"}`;
}
