// Layout of the canvas: rows from top to bottom, time from left to right.

const AXIS = 24, FAULT_ROW = 18, CLIENT_LANE = 46, KEY_ROW = 29, CLOCK_ROW = 30, TOKENS = 104, OVERVIEW = 26, GAP = 10;
const MOST_FAULT_ROWS = 4;
const OUTSIDE = 400;  // px, more than the widest label beside an item

function layOut(run, width) {
  const gutter = width < 560 ? 40 : 64;
  const faultRows = assignRows(run.faults, run.end);
  const top = AXIS + faultRows.count * FAULT_ROW + (faultRows.count ? 6 : 0);
  const servers = top + run.lanes.length * CLIENT_LANE + GAP;
  const rows = serverRows(run), tokens = servers + run.servers.length * rows.lane + (run.tokens ? GAP : 0);
  const bottom = tokens + (run.tokens ? TOKENS : 0);
  const height = bottom + GAP + OVERVIEW + 4;
  return { width, height, gutter, right: width - 8, top, servers, ...rows, tokens, bottom, overview: bottom + GAP, rows: faultRows.rows };
}

// A server's lane has a row for the key, if keys were recorded, and a row for the clock, if any clock was ever wrong.
function serverRows(run) {
  const looked = run.stays.lane.length > 0, off = run.servers.some((name) => run.offsets[name]);
  const keyRow = looked ? KEY_ROW : 0, clockRow = off || !looked ? CLOCK_ROW : 0;
  return { keyRow, clockRow, lane: keyRow + clockRow };
}

function serverTop(layout, server) {
  return layout.servers + server * layout.lane;
}

// Give each fault's label the first row in which it overlaps no other.
function assignRows(faults, end) {
  const free = [];
  const rows = faults.map((fault) => {
    if (fault.from === null) return -1;
    let row = free.findIndex((until) => until <= fault.from);
    if (row < 0) row = Math.min(free.length, MOST_FAULT_ROWS - 1);
    free[row] = fault.until === null ? end : fault.until;
    return row;
  });
  return { rows, count: free.length };
}

function laneTop(layout, lane) {
  return layout.top + lane * CLIENT_LANE;
}

// A hold's bar in its lane; a client that holds several keys at once has up to three thinner ones.
function barBox(layout, lane, level, levels) {
  const height = 22 / levels;
  return { y: laneTop(layout, lane) + 12 + level * height, height: levels > 1 ? height - 1 : height };
}

// The x coordinate of a time, clamped to just outside the view: zoomed in, a run is millions of pixels long, and drawing
// to the real coordinate would draw them all.
function xOf(state, time) {
  const { layout, view } = state;
  return kept(state, layout.gutter + (time - view.from) / (view.until - view.from) * (layout.right - layout.gutter));
}

function kept({ layout }, x) {
  return Math.min(Math.max(x, -OUTSIDE), layout.width + OUTSIDE);
}

function timeAt(state, x) {
  const { layout, view } = state;
  return view.from + (x - layout.gutter) / (layout.right - layout.gutter) * (view.until - view.from);
}

function overviewX(state, time) {
  const { layout, run } = state;
  return layout.gutter + time / run.end * (layout.right - layout.gutter);
}

function overviewTime(state, x) {
  const { layout, run } = state;
  return (x - layout.gutter) / (layout.right - layout.gutter) * run.end;
}

// µs
function perPixel({ layout, view }) {
  return (view.until - view.from) / (layout.right - layout.gutter);
}

// Round distances between ticks: 1, 2 or 5 times a power of ten, about a hundred pixels apart.
function tickStep(pixel, apart) {
  const rough = pixel * apart, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough);
}

// The view of a violation: everything involved, with a margin, unless the overlap would then be too small to see.
function viewOfViolation(run, violation) {
  const starts = violation.involved.map((one) => one.from);
  const ends = violation.involved.map((one) => one.until ?? run.recorded);
  let from = Math.min(violation.from, ...starts), until = Math.max(violation.until, ...ends);
  const overlap = Math.max(violation.until - violation.from, 1000);
  if (until - from > 30 * overlap) {
    const middle = (violation.from + violation.until) / 2;
    from = Math.max(from, middle - 12 * overlap);
    until = Math.min(until, middle + 12 * overlap);
  }
  const room = 0.22 * (until - from) + 1000;
  return { from: from - room, until: until + room };
}
