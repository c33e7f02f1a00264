// Draws the rows in view, with the bars of holds, leases and keys, and the bands of faults and the violation.

const SEQUENCE = { top: 6, row: 24, left: 92, least: 92, most: 400, head: 40, spare: 12 };

function layLanes(state) {
  const { left, least, most } = SEQUENCE, { data, rows, mode, group } = state, used = new Set(mode === "all" ? data.hosts : group.clients);
  if (mode !== "all") for (const code of rows.code) if (code >= 0) used.add(data.hosts[data.messages.client[code >> 1]]).add(data.hosts[data.messages.server[code >> 1]]);
  for (const [, host, kind] of data.events) if (kind === "clock" && data.servers.includes(host)) used.add(host);
  state.lanes = inOrder(data, data.hosts.filter((name) => used.has(name)), mode, group.clients);
  const wide = Math.min(most, Math.max(least, (state.by("canvas").clientWidth - left - 4) / Math.max(state.lanes.length, 1)));
  state.wide = wide;
  state.x = Object.fromEntries(state.lanes.map((name, number) => [name, left + wide * (number + 0.5)]));
  state.width = left + state.lanes.length * wide;
  state.height = SEQUENCE.top + rows.code.length * SEQUENCE.row + 10;
}

const MOST_SPLIT = 4;

// The servers stand between a few clients, so that no arrow crosses another client's bar. The first two clients that the
// violation names stand on opposite sides.
function inOrder(data, names, mode, named) {
  const servers = names.filter((name) => data.servers.includes(name)), clients = names.filter((name) => !data.servers.includes(name));
  if (mode === "all" || clients.length > MOST_SPLIT) return [...clients, ...servers];
  const place = (name) => (named.includes(name) ? named.indexOf(name) : named.length);
  clients.sort((a, b) => place(a) - place(b));
  return [...clients.filter((_, i) => i % 2 === 0).reverse(), ...servers, ...clients.filter((_, i) => i % 2 === 1)];
}

function drawSequence(state) {
  const { by } = state, { head } = SEQUENCE;
  layLanes(state);
  state.font = getComputedStyle(by("canvas")).fontFamily;
  by("canvas").innerHTML = `<div class="lanes" style="width: ${state.width}px"></div><div class="rows" style="width: ${state.width}px; height: ${state.height}px"></div>`;
  [state.header, state.sheet] = by("canvas").children;
  state.drawn = null;
  state.header.style.height = `${head}px`;
}

// The names of the hosts, each with the reading of its wall clock at the chosen step.
function drawHeader(state, us) {
  const { head } = SEQUENCE, { x, run } = state;
  const names = state.lanes.map((name) => {
    const offset = offsetAt(run.offsets[name] || [], us), text = offset ? `clock ${offset > 0 ? "+" : "−"}${span(Math.abs(offset))}` : "clock correct";
    return `<text x="${x[name]}" y="16" text-anchor="middle" class="name">${escaped(name)}</text><text x="${x[name]}" y="32" text-anchor="middle" class="${offset ? "off" : "fine"}">${text}</text>`;
  });
  state.header.innerHTML = `<svg width="${state.width}" height="${head}" viewBox="0 0 ${state.width} ${head}" aria-hidden="true">${names.join("")}</svg>`;
}

// Draw the rows that the box shows unless they are drawn, and mark the chosen one.
function showRows(state) {
  const canvas = state.by("canvas"), { row, top } = SEQUENCE, count = state.rows.code.length, { drawn } = state;
  const first = Math.max(0, Math.floor((canvas.scrollTop - top) / row)), last = Math.min(count, Math.ceil((canvas.scrollTop + canvas.clientHeight) / row));
  if (!drawn || first < drawn.first || last > drawn.last) return drawWindow(state);
  state.sheet.querySelector(".chosen")?.classList.remove("chosen");
  state.sheet.querySelector(`[data-row="${state.at}"]`)?.classList.add("chosen");
}

// Draw the rows that the box shows, and some more. In print, all rows around the chosen one.
function drawWindow(state) {
  const canvas = state.by("canvas"), { row, top, spare } = SEQUENCE, count = state.rows.code.length;
  const first = state.printing ? Math.max(0, state.at - PRINTED / 2) : Math.max(0, Math.floor((canvas.scrollTop - top) / row) - spare);
  const last = state.printing ? Math.min(count, first + PRINTED) : Math.min(count, Math.ceil((canvas.scrollTop + canvas.clientHeight) / row) + spare);
  const begin = top + first * row - (first ? 0 : top), end = top + last * row + 10, view = { first, last, begin, end, thin: new Map() };
  state.drawn = view;
  const rows = [];
  state.texts = new Map();
  for (let position = first; position < last; position++) rows.push(drawRow(state, position));
  const parts = [...drawBands(state, view), ...drawLaneLines(state, view), ...drawBars(state, view), ...rows];
  const { width } = state, height = end - begin;
  state.sheet.innerHTML = `<svg style="top: ${state.printing ? 0 : begin}px" width="${width}" height="${height}" viewBox="0 ${begin} ${width} ${height}" aria-hidden="true">${PATTERNS}${parts.join("")}</svg>`;
  if (state.printing) state.sheet.style.height = `${height}px`;
}

const PRINTED = 300;  // rows
const PATTERNS = `<defs><pattern id="sequence-over" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripe" width="3" height="6"/></pattern></defs>`;

const THIN = 2;  // px

// A bar or band between two times as far as it is in view; empty if it is not. Of thin bars close to each other only the
// first is drawn: between two rows there may be thousands of holds.
function bar(state, view, kind, x, wide, from, until, title) {
  const y = Math.max(placeOf(state, from), view.begin), end = Math.min(placeOf(state, until), view.end);
  const column = `${kind.split(" ")[0]} ${x}`, thin = end - y < THIN;
  if (end <= y || (thin && y < view.thin.get(column))) return "";
  if (thin) view.thin.set(column, y + 2 * THIN);
  return `<rect class="${kind}" x="${x}" y="${y}" width="${wide}" height="${Math.max(end - y, THIN)}"><title>${escaped(title)}</title></rect>`;
}

function drawBands(state, view) {
  const { left } = SEQUENCE, { run, group, x, wide, width } = state, parts = [];
  if (group.from !== null) parts.push(bar(state, view, "broken", left, width - left, group.from, group.until, group.title));
  for (const fault of run.faults) {
    if (fault.from === null) continue;
    const hosts = fault.hosts.filter((host) => host in x), title = faultLines(fault).join("; ");
    for (const host of hosts) parts.push(bar(state, view, "fault", x[host] - wide * 0.42, wide * 0.84, fault.from, fault.until, title));
  }
  return parts;
}

function drawLaneLines({ lanes, x }, { begin, end }) {
  return lanes.map((name) => `<line class="lane" x1="${x[name]}" x2="${x[name]}" y1="${begin}" y2="${end}"/>`);
}

function drawBars(state, view) {
  const { rows, run } = state, from = rows.time[view.first], until = rows.time[Math.max(view.last - 1, 0)], keys = keysShown(state);
  const parts = [];
  for (const name of state.lanes) {
    const lane = run.lanes[run.clients.indexOf(name)];
    if (lane) eachVisible(run.holds, lane.holds, from - state.longestLease, until, (row) => {
      if (!keys.includes(run.texts[run.holds.key[row]])) return;
      if (!run.holds.released[row] || endOf(run.holds, row, run.recorded) >= from) parts.push(drawHeld(state, view, row, name));
    });
    const server = run.servers.indexOf(name);
    if (server >= 0) keys.forEach((key, place) => {
      const stays = run.stayLanes[server * run.keys.length + run.keys.indexOf(key)];
      eachVisible(run.stays, stays, from, until, (row) => parts.push(drawKept(state, view, row, name, { key, place, count: keys.length })));
    });
  }
  return parts;
}

// The locks whose holds and keys are drawn: among decisive messages the one of the violation.
function keysShown({ run: { keys }, group, mode }) {
  return mode === "decisive" && keys.includes(group.key) ? [group.key] : keys;
}

// A hold as a bar. Beside it the lease as a thin bar; the part of the hold after its lease is striped.
function drawHeld(state, view, row, name) {
  const { holds, recorded } = state.run, x = state.x[name] - 5 + 7 * holds.level[row], start = holds.start[row];
  const open = holds.took[row] < 0, end = open ? recorded : start + holds.took[row];
  let parts = bar(state, view, "held", x, 10, start, end, `${name} believes that it holds ${state.run.texts[holds.key[row]]}`);
  if (holds.lease[row] < 0) return parts;
  const over = start + holds.lease[row], left = holds.released[row] ? Math.min(over, end) : over;
  if (left > start) parts += bar(state, view, "lease", x + 12, 4, start, left, `${name}'s lease, ${span(holds.lease[row])}`);
  if (over < end) parts += bar(state, view, "overdue", x, 10, over, end, `${name}'s lease has ended`);
  return parts;
}

// Of several keys, each has a bar of its own beside the others.
function drawKept(state, view, row, name, { key, place, count }) {
  const { run } = state, { stays } = run, start = stays.start[row], end = endOf(stays, row, run.recorded);
  if (stays.who[row] < 0) return bar(state, view, "silent", state.x[name] - 10, 20, start, end, `${name} does not answer`);
  const wide = Math.min(20, 72 / count), x = state.x[name] - wide * (count / 2 - place);
  const who = run.texts[stays.who[row]], client = run.tone[stays.who[row]];
  const kind = client < 0 ? "x" : "abcd"[client % 4];
  const drawn = bar(state, view, `kept tone-${kind}`, x, wide, start, end, `${name} has ${key} for ${who}`);
  const y = Math.max(placeOf(state, start), view.begin), last = Math.min(placeOf(state, end), view.end);
  if (last - y < 14 || who.length * LETTER > wide + 3) return drawn;
  const label = (from) => `<text class="who tone-${kind}" x="${x + wide / 2}" y="${freePlace(state, x + wide / 2, from, last)}" text-anchor="middle">${escaped(who)}</text>`;
  const apart = NAMED * SEQUENCE.row, places = Array.from({ length: Math.max(1, Math.floor((last - y) / apart)) }, (_, i) => y + i * apart);
  return drawn + places.map(label).join("");
}

const NAMED = 12;  // rows, fewer than the box shows: some name of a long bar is in view

// The place of a name on a bar from y to end: the first of the next rows whose text does not cross the bar.
function freePlace(state, x, y, end) {
  const { top, row } = SEQUENCE, first = Math.ceil((y - top) / row);
  for (let position = first; position < first + 8 && top + (position + 0.8) * row <= end; position++) {
    const [from, until] = state.texts.get(position) ?? [0, 0];
    if (x + 12 < from || x - 12 > until) return top + (position + 0.7) * row;
  }
  return Math.min(y + 15, (y + end) / 2 + 4);
}

const LETTER = 7.5;  // px, about the width of one in bold

// Remember how far the text of a row reaches, from x to the right (way 1) or to the left (way -1).
function noteText(state, position, x, way, text) {
  const wide = way * text.length * LETTER;
  state.texts.set(position, [Math.min(x, x + wide), Math.max(x, x + wide)]);
}

function drawRow(state, position) {
  const { top, row } = SEQUENCE, step = stepAt(state, position), y = top + (position + 0.7) * row;
  const chosen = position === state.at ? " chosen" : "";
  const back = `<rect class="back" x="0" y="${y - row * 0.7}" width="${state.width}" height="${row}"/><text x="4" y="${y}">${clock(step.time)}</text>`;
  const inside = step.event ? drawEvent(state, step, y, position) : drawArrow(state, step, y, position);
  const kind = step.event ? ` event ${step.event}` : `${step.lost ? " lost" : ""}${stressed(state, step) ? " decisive" : ""}`;
  return `<g class="row${kind}${chosen}" data-row="${position}">${back}${drawGap(state, position, y)}${inside}<title>${escaped(stepText(state, step))}</title></g>`;
}

// A decisive message among others.
function stressed({ group, mode }, step) {
  return mode !== "decisive" && group.decisive.has(step.i);
}

// A mark on the host's line, and the text on the side with more room.
function drawEvent(state, step, y, position) {
  const x = state.x[step.host], { left } = SEQUENCE;
  if (x === undefined) noteText(state, position, left, 1, step.text);
  if (x === undefined) return `<line class="across" x1="${left}" x2="${state.width}" y1="${y + 6}" y2="${y + 6}"/><text x="${left + 4}" y="${y}">${escaped(fitted(state, step.text, state.width - left - 8, "600 13px"))}</text>`;
  const right = x - left < (state.width - left) / 2, room = right ? state.width - x - 18 : x - left - 18;
  const text = fitted(state, step.text, room, "600 12px");
  noteText(state, position, x, right ? 1 : -1, `  ${text}`);
  return `<path class="mark" d="M${x} ${y - 10}l6 6l-6 6l-6 -6z"/><text x="${right ? x + 16 : x - 16}" y="${y}" text-anchor="${right ? "start" : "end"}">${escaped(text)}</text>`;
}

const LATE = 100000;  // µs

// The text stands beside the sender. The arrow of a late message slopes to the row of its arrival.
function drawArrow(state, step, y, position) {
  const from = state.x[step.from], to = state.x[step.to], way = Math.sign(to - from);
  const down = step.end !== null && step.end - step.time > LATE ? placeOf(state, step.end) - y : 0;
  const begin = from + 10 * way, end = step.lost ? (from + to) / 2 : to - 10 * way;
  const whole = Math.abs(to - from) - 26, room = state.wide > 110 ? Math.min(whole, Math.max(state.wide - 34, 90)) : whole;
  const label = fitted(state, arrowText(state, step), room, stressed(state, step) ? "650 12px" : "12px");
  noteText(state, position, from, way, `  ${label}`);
  const cross = step.lost ? `<path class="cross" d="M${end - 6} ${y - 6}l12 12m0 -12l-12 12"/>` : `<path class="head" d="M${end} ${y + down}l${-8 * way} -4v8z"/>`;
  return `<line class="arrow" x1="${begin}" x2="${end}" y1="${y}" y2="${y + down}"/>${cross}`
    + `<text x="${from + 15 * way}" y="${y - 4}" text-anchor="${way > 0 ? "start" : "end"}">${escaped(label)}</text>`;
}

// The time since the row before, if it is long compared with the group's.
function drawGap(state, position, y) {
  const { rows, group } = state, gap = position ? rows.time[position] - rows.time[position - 1] : 0;
  if (gap < Math.max(50000, 0.08 * (group.last - group.first))) return "";
  const place = y - 0.7 * SEQUENCE.row;
  return `<line class="gap" x1="0" x2="${state.width}" y1="${place}" y2="${place}"/><text class="later" x="4" y="${place + 4}">${span(Math.round(gap))} later</text>`;
}

// The text of a message with the values of owners replaced by the clients that wrote them, and other long values cut.
function arrowText(state, step) {
  const text = step.text.replace(/[^\s"',:;(){}[\]=/]{8,}/g, (word) => {
    const writer = state.data.writers.get(word);
    return writer ? `‹${writer}›` : word.length > 12 && /\d/.test(word) ? `${word.slice(0, 8)}…` : word;
  });
  return step.lost ? `${text} (lost)` : text;
}

const RULER = document.createElement("canvas").getContext("2d");
const LEAST_LETTERS = 9;

// The text, cut to a room (px) in a font (weight and size) if it is longer.
function fitted(state, text, room, font) {
  RULER.font = `${font} ${state.font}`;
  const width = RULER.measureText(text).width, cut = (count) => `${text.slice(0, count)}…`;
  if (width <= room) return text;
  let count = Math.max(LEAST_LETTERS, Math.min(text.length - 1, Math.floor(text.length * room / width)));
  while (count > LEAST_LETTERS && RULER.measureText(cut(count)).width > room) count--;
  return cut(count);
}

function escaped(text) {
  return String(text).replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
}
