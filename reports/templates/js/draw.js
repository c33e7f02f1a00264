// Draws only the visible part of the run: rows are found by binary search, and rows thinner than a pixel are merged.

const FONT = "11px system-ui, sans-serif";
const SHADES = 6;

function draw(state) {
  const { context, layout, colours, run } = state;
  context.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, layout.width, layout.height);
  state.showLeases = run.usualHold / perPixel(state) > 7;
  drawAxis(state);
  clipped(state, 0, layout.bottom, () => {
    drawFaultBands(state);
    state.run.lanes.forEach((lane, i) => drawClient(state, lane, i));
    state.run.servers.forEach((name, i) => drawServer(state, name, i));
    drawViolations(state);
    drawFaultLabels(state);
    drawDeaths(state);
    drawTokens(state);
    drawCut(state);
    drawPointer(state);
  });
  drawNames(state);
  drawOverview(state);
}

function clipped(state, top, bottom, paint) {
  const { context, layout } = state;
  context.save();
  context.beginPath();
  context.rect(layout.gutter, top, layout.right - layout.gutter, bottom - top);
  context.clip();
  paint();
  context.restore();
}

function drawAxis(state) {
  const { context, layout, view, colours } = state;
  const step = tickStep(perPixel(state), 90), digits = Math.max(0, Math.ceil(6 - Math.log10(step)));
  context.textAlign = "center";
  for (let t = Math.max(Math.ceil(view.from / step), 0) * step; t <= view.until; t += step) {
    const x = Math.round(xOf(state, t)) + 0.5;
    context.fillStyle = colours.rule;
    context.fillRect(x - 0.5, AXIS - 4, 1, layout.bottom - AXIS + 4);
    context.fillStyle = colours.muted;
    if (x > layout.gutter + 14 && x < layout.right - 18) context.fillText(seconds(t, digits), x, 9);
  }
}

function drawNames(state) {
  const { context, layout, colours, run } = state;
  const middles = [
    ...run.lanes.map((lane, i) => [lane.name, laneTop(layout, i) + 23]),
    ...run.servers.map((name, i) => [run.manyKeys && layout.keyRow ? `${name} ${state.key}` : name, serverTop(layout, i) + (layout.keyRow ? 12 : layout.clockRow / 2)]),
    ...(run.tokens ? [["tokens", layout.tokens + 10]] : []),
  ];
  context.textAlign = "left";
  for (const [name, y] of middles) {
    context.fillStyle = colours.ink;
    context.fillText(name, 4, y, layout.gutter - 8);
  }
}

function drawClient(state, lane, index) {
  const { context, layout, colours, view, run } = state;
  context.fillStyle = colours.rule;
  context.fillRect(layout.gutter, laneTop(layout, index) + CLIENT_LANE - 1, layout.right - layout.gutter, 1);
  const levels = lane.levels ??= 1 + lane.holds.rows.reduce((most, row) => Math.max(most, run.holds.level[row]), 0);
  drawWaits(state, lane, index);
  eachVisible(run.holds, lane.holds, view.from - state.longestLease, view.until, (row) => drawLease(state, row, index, levels));
  const thin = new Float32Array(Math.ceil(layout.width) + 1);
  eachVisible(run.holds, lane.holds, view.from, view.until, (row) => drawHold(state, row, index, levels, thin));
  drawThin(state, thin, barBox(layout, index, 0, 1), colours.hold);
  drawMarks(state, lane, index);
  const steps = run.offsets[lane.name];
  if (steps) drawOffset(state, lane.name, steps, laneTop(layout, index) + CLIENT_LANE - 8, 6);
}

// Waiting for a grant: a thin line from the invocation on. Skip lines within a pixel of the last one.
function drawWaits(state, lane, index) {
  const { context, run, view, colours } = state, { calls } = run, y = laneTop(state.layout, index) + 22;
  let drawn = -Infinity;
  context.fillStyle = colours.wait;
  eachVisible(calls, lane.calls, view.from, view.until, (row) => {
    if (calls.f[row] !== run.acquire) return;
    const from = Math.max(xOf(state, calls.start[row]), drawn), until = xOf(state, endOf(calls, row, run.recorded));
    if (until - from < 0.5) return;
    context.fillRect(from, y, until - from, 1.5);
    drawn = until;
  });
}

// The lease as granted: a ribbon behind the hold's lower edge up to a tick at its end. It is fainter after the client has
// died or stopped believing that it holds the lock, and ends with a release.
function drawLease(state, row, lane, levels) {
  const { context, run, colours } = state, { holds } = run;
  if (holds.lease[row] < 0) return;
  const start = xOf(state, holds.start[row]), end = xOf(state, holds.start[row] + holds.lease[row]);
  const over = Math.min(xOf(state, endOf(holds, row, run.recorded)), end);
  if (!state.showLeases && over - start < 24) return;
  const box = barBox(state.layout, lane, holds.level[row], levels), foot = box.y + box.height;
  context.fillStyle = colours.lease;
  context.fillRect(start, foot - 5, over - start, 4);
  if (holds.released[row] && over < end) return;
  context.globalAlpha = 0.6;
  context.fillRect(over, foot - 4, end - over, 2);
  context.globalAlpha = 1;
  context.fillStyle = colours.hold;
  context.fillRect(end - 1, foot - 8, 1.5, 10);
}

function drawHold(state, row, lane, levels, thin) {
  const { context, run, colours } = state, { holds } = run;
  const from = xOf(state, holds.start[row]), until = xOf(state, endOf(holds, row, run.recorded)), width = until - from;
  if (width < 1.5) return void cover(thin, from, until);
  const box = barBox(state.layout, lane, holds.level[row], levels);
  context.fillStyle = colours.hold;
  if (holds.shared?.[row]) drawShared(state, from, width, box);
  else roundBar(context, from, box.y, width, box.height);
  if (holds.lease[row] >= 0) drawExpired(state, xOf(state, holds.start[row] + holds.lease[row]), until, box);
  if (width < 6) return;
  drawCritical(state, row, box);
  if (box.height > 12) drawBarLabel(state, barLabel(run, row), from, until, box, holds.shared?.[row] ? colours.ink : colours.onHold);
}

// A shared hold is an outline with a pale fill and a dark label.
function drawShared(state, from, width, box) {
  const { context, colours } = state;
  context.globalAlpha = 0.2;
  roundBar(context, from, box.y, width, box.height);
  context.globalAlpha = 1;
  context.strokeStyle = colours.hold;
  context.lineWidth = 1.5;
  context.beginPath();
  context.roundRect(from + 0.75, box.y + 0.75, Math.max(width - 1.5, 0.5), box.height - 1.5, Math.min(3, width / 3));
  context.stroke();
}

// The fencing token, and the key where there are several.
function barLabel(run, row) {
  const { holds, texts } = run, key = run.manyKeys ? texts[holds.key[row]] : "";
  return [key, holds.fence[row] < 0 ? "" : "#" + texts[holds.fence[row]]].filter(Boolean).join(" ");
}

// Draw a label if the visible part of the bar has room for it.
function drawBarLabel(state, label, from, until, box, colour) {
  const { context, layout } = state, left = Math.max(from, layout.gutter) + 6;
  if (Math.min(until, layout.right) - left < context.measureText(label).width + 4) return;
  context.fillStyle = colour;
  context.textAlign = "left";
  context.fillText(label, left, box.y + 7);
}

// The part of a hold after the end of its lease: the client still believed that it held the lock.
function drawExpired(state, lease, until, box) {
  if (until - lease < 0.5) return;
  state.context.fillStyle = state.hatch.expired;
  state.context.fillRect(lease, box.y, until - lease, box.height);
}

// The critical section, from the first access of the resource to the last one's answer.
function drawCritical(state, row, box) {
  const { context, run, colours } = state, { holds } = run;
  if (holds.from[row] < 0) return;
  const from = xOf(state, holds.start[row] + holds.from[row]), until = xOf(state, holds.start[row] + holds.until[row]);
  context.fillStyle = colours.critical;
  roundBar(context, from, box.y + box.height * 0.62, Math.max(until - from, 1), box.height * 0.22);
}

function roundBar(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(3, width / 3, height / 2));
  context.fill();
}

function cover(thin, from, until) {
  const column = Math.floor(from);
  if (column < 0 || column >= thin.length) return;
  thin[column] += Math.min(1, column + 1 - from, until - from);
  if (until > column + 1 && column + 1 < thin.length) thin[column + 1] += until - column - 1;
}

// Bars thinner than a pixel: the shade of each column shows, in steps, the share of its time that they cover. Adjacent
// columns of one shade are painted together.
function drawThin({ context }, thin, box, colour) {
  const shade = (x) => Math.ceil(Math.min(1, thin[x]) * SHADES);
  context.fillStyle = colour;
  for (let x = 0, end; x < thin.length; x = end) {
    const here = shade(x);
    for (end = x + 1; end < thin.length && shade(end) === here; end++);
    if (here === 0) continue;
    context.globalAlpha = 0.2 + 0.8 * here / SHADES;
    context.fillRect(x, box.y, end - x, box.height);
  }
  context.globalAlpha = 1;
}

// Failed calls (a cross) and calls of unknown outcome (a question mark); ticks of the same colours where they crowd.
function drawMarks(state, lane, index) {
  const { context, colours, layout } = state, y = laneTop(layout, index) + 7, marks = visibleMarks(state, lane);
  const crowded = marks.length > (layout.right - layout.gutter) / 16;
  context.textAlign = "center";
  context.font = "bold 11px system-ui, sans-serif";
  for (const [x, outcome] of marks) {
    context.fillStyle = outcome === 1 ? colours.fail : colours.info;
    if (crowded) context.fillRect(x, outcome === 1 ? y - 3 : y + 1, 1.5, 4);
    else context.fillText(outcome === 1 ? "×" : "?", Math.min(x, layout.right - 5), y);
  }
  context.font = FONT;
}

// Draw at most one mark of each kind in a pixel column.
function visibleMarks(state, lane) {
  const { run, view } = state, { calls } = run, marks = [], last = [0, -1, -1];
  eachVisible(calls, lane.calls, view.from, view.until, (row) => {
    const outcome = calls.outcome[row];
    if (outcome === 0) return;
    const x = Math.round(xOf(state, endOf(calls, row, run.recorded)));
    if (x !== last[outcome]) marks.push([x, outcome]);
    last[outcome] = x;
  });
  return marks;
}
