// Draws faults, violations, and the overview of the whole run.

function faultSpan(state, fault) {
  const from = xOf(state, fault.from), until = xOf(state, fault.until === null ? state.run.end : fault.until);
  return { from, width: Math.max(until - from, 2) };
}

function drawFaultBands(state) {
  const { context, layout, run, colours } = state;
  run.faults.forEach((fault, i) => {
    if (fault.from === null) return;
    const { from, width } = faultSpan(state, fault), top = AXIS + layout.rows[i] * FAULT_ROW;
    context.fillStyle = colours.fault;
    context.globalAlpha = fault.seen === false ? 0.05 : 0.1;
    context.fillRect(from, top, width, layout.bottom - top);
    context.globalAlpha = fault.seen === false ? 0.25 : 0.55;
    roundBar(context, from, top + 1, width, FAULT_ROW - 3);
    context.globalAlpha = 1;
    for (const host of fault.hosts) drawHostBand(state, host, from, width);
  });
}

// Hosts that a fault hit have a stronger band in their lanes.
function drawHostBand(state, host, from, width) {
  const { context, layout, run, colours } = state;
  const server = run.servers.indexOf(host), client = run.clients.indexOf(host);
  if (server < 0 && client < 0) return;
  const top = server >= 0 ? serverTop(layout, server) + 2 : laneTop(layout, client) + 2;
  context.globalAlpha = 0.15;
  context.fillStyle = colours.fault;
  context.fillRect(from, top, width, (server >= 0 ? layout.lane - 5 : CLIENT_LANE - 6));
  context.globalAlpha = 1;
}

function drawFaultLabels(state) {
  const { context, layout, run, colours } = state;
  context.textAlign = "left";
  run.faults.forEach((fault, i) => {
    if (fault.from === null) return;
    const { from, width } = faultSpan(state, fault);
    const left = Math.max(from, layout.gutter) + 5, room = from + width - left - 3;
    if (room < 24) return;
    context.fillStyle = colours.ink;
    const unseen = fault.seen === false ? " (not observed)" : "";
    context.fillText(shorten(context, `${fault.name} ${fault.hosts.join(", ")}${unseen}`, room), left, AXIS + layout.rows[i] * FAULT_ROW + 9);
  });
}

function shorten(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > room) end--;
  return text.slice(0, end) + "…";
}

// Draw all outlines, then the labels, the selected violation's first. A label without room is left out.
function drawViolations(state) {
  const { violations } = state.run, { view } = state, taken = [];
  const visible = violations.filter((violation) => violation.from <= view.until && violation.until >= view.from);
  const boxes = new Map(visible.map((violation) => [violation, drawViolation(state, violation)]));
  const chosen = violations[state.chosen];
  if (boxes.has(chosen)) labelViolation(state, chosen, boxes.get(chosen), taken);
  if (visible.length > 200) return;
  for (const violation of visible) if (violation !== chosen) labelViolation(state, violation, boxes.get(violation), taken);
}

function drawViolation(state, violation) {
  const { context, layout, run, colours } = state;
  const from = xOf(state, violation.from), width = Math.max(xOf(state, violation.until) - from, 2);
  const lanes = violation.involved.map((one) => one.lane);
  const top = lanes.length ? laneTop(layout, Math.min(...lanes)) + 2 : layout.top;
  const bottom = lanes.length ? laneTop(layout, Math.max(...lanes)) + CLIENT_LANE - 3 : layout.bottom;
  context.globalAlpha = violation === run.violations[state.chosen] ? 1 : 0.3;
  context.fillStyle = state.hatch.bad;
  context.fillRect(from, top, width, bottom - top);
  context.globalAlpha = 1;
  context.strokeStyle = colours.bad;
  context.lineWidth = 1;
  context.strokeRect(from, top, width, bottom - top);
  context.lineWidth = 2.5;
  for (const one of violation.involved) outline(state, one, run.recorded);
  return { centre: from + width / 2, top };
}

// Outline a whole hold; outline a call in the lower part of the bar, where the critical section is.
function outline(state, one, end) {
  const { context, layout } = state, top = laneTop(layout, one.lane);
  const from = xOf(state, one.from), width = Math.max(xOf(state, one.until ?? end) - from, 3);
  context.beginPath();
  if (one.f === "hold") context.roundRect(from, top + 11, width, 24, 4);
  else context.roundRect(from, top + 24, width, 9, 2);
  context.stroke();
}

// The label is on the upper edge of the overlap, between two lanes.
function labelViolation(state, violation, { centre, top }, taken) {
  const { context, layout, colours } = state;
  const length = violation.until - violation.from, said = length > 0 ? `${violation.kind} ${span(length)}` : violation.kind;
  context.font = "bold 11px system-ui, sans-serif";
  const width = context.measureText(said).width + 12;
  const left = Math.min(Math.max(centre - width / 2, layout.gutter + 2), layout.right - width - 2);
  const free = taken.every((box) => box.top !== top || left > box.right + 3 || left + width < box.left - 3);
  if (free) {
    taken.push({ left, right: left + width, top });
    context.fillStyle = colours.bad;
    roundBar(context, left, top - 9, width, 17);
    context.fillStyle = colours.onBad;
    context.textAlign = "left";
    context.fillText(said, left + 6, top);
  }
  context.font = FONT;
}

// Mark the death of a client's host or process.
function drawDeaths(state) {
  const { context, layout, run, colours } = state;
  context.textAlign = "left";
  for (const [lane, at, word] of run.deaths) {
    const x = xOf(state, at), top = laneTop(layout, lane);
    context.fillStyle = colours.ink;
    context.fillRect(x - 1, top + 4, 2, CLIENT_LANE - 9);
    context.fillText(word, x + 5, top + 9);
  }
}

// Mark the end of a truncated history; anything drawn after it comes from the results only.
function drawCut(state) {
  const { context, layout, run, colours } = state;
  if (run.recorded >= run.end) return;
  const x = xOf(state, run.recorded);
  context.fillStyle = colours.muted;
  for (let y = AXIS; y < layout.bottom; y += 6) context.fillRect(x, y, 1, 3);
  context.textAlign = "left";
  context.fillText("the history is truncated here", x + 5, layout.servers - GAP - 8);
}

function drawPointer(state) {
  if (state.pointer === null) return;
  const { context, layout, colours } = state;
  context.fillStyle = colours.wait;
  context.fillRect(Math.round(state.pointer), AXIS - 4, 1, layout.bottom - AXIS + 4);
}

// Draw the whole run as a strip, with a frame around the visible part.
function drawOverview(state) {
  const { context, layout, run, view, colours } = state, top = layout.overview;
  context.fillStyle = colours.bg;
  context.fillRect(layout.gutter, top, layout.right - layout.gutter, OVERVIEW);
  const block = (from, until, colour, alpha) => {
    const x = overviewX(state, from);
    context.fillStyle = colour;
    context.globalAlpha = alpha;
    context.fillRect(x, top, Math.max(overviewX(state, until) - x, 2), OVERVIEW);
  };
  for (const fault of run.faults) if (fault.from !== null) block(fault.from, fault.until ?? run.end, colours.fault, 0.45);
  for (const violation of run.violations) {
    block(violation.from, violation.until, colours.bad, 0.4);
    block(violation.from, violation.from, colours.bad, 1);
  }
  context.globalAlpha = 1;
  const left = overviewX(state, Math.max(view.from, 0)), right = overviewX(state, Math.min(view.until, run.end));
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.5;
  context.strokeRect(left, top + 1, Math.max(right - left, 3), OVERVIEW - 2);
  context.fillStyle = colours.muted;
  context.textAlign = "left";
  context.fillText("whole", 4, top + OVERVIEW / 2 + 0.5, layout.gutter - 8);
}
