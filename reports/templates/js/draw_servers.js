// Draws the servers' lanes: the owner of the lock's key on each server, and below it the offset of the server's clock.

const STRAY = 50000;  // µs by which a key's end may differ from its announced end and still count as punctual
const MOST_GHOSTS = 4;
const EARLY = ENDS.indexOf("early"), REMOVED = ENDS.indexOf("removed"), UNRECORDED = ENDS.indexOf("not recorded");

function drawServer(state, name, index) {
  const { context, layout, run, colours } = state, top = serverTop(layout, index);
  context.fillStyle = colours.rule;
  context.fillRect(layout.gutter, top + layout.lane - 1, layout.right - layout.gutter, 1);
  if (layout.keyRow) drawStays(state, stayLane(state, index), top);
  if (layout.clockRow) drawOffset(state, name, run.offsets[name] || [], top + layout.keyRow + layout.clockRow / 2 - 1, 10);
}

function stayLane(state, server) {
  return state.run.stayLanes[server * state.run.keys.length + state.run.keys.indexOf(state.key)];
}

function keyBox(top) {
  return { y: top + 5, height: 15 };
}

// This loop may visit a hundred thousand stays in a frame, so it only adds up those thinner than a pixel.
function drawStays(state, lane, top) {
  const { colours, run, view, layout } = state, { stays } = run, box = keyBox(top), gone = [];
  const { start, took, ended } = stays, { rows, reach } = lane, thin = new Float32Array(Math.ceil(layout.width) + 1);
  const scale = (layout.right - layout.gutter) / (view.until - view.from), left = layout.gutter - view.from * scale;
  let marked = NaN;
  for (let i = lowerBound(reach, view.from - state.longestGhost); i < rows.length; i++) {
    const row = rows[i], begun = start[row];
    if (begun > view.until) break;
    const over = left + (took[row] < 0 ? run.recorded : begun + took[row]) * scale;
    const from = kept(state, left + begun * scale), until = kept(state, over);
    const next = i + 1 < rows.length ? kept(state, left + start[rows[i + 1]] * scale) : kept(state, Infinity);
    if (until - from < 1.5) cover(thin, from, until);
    else drawStay(state, row, from, until, box, next);
    if (next < layout.gutter || ended[row] !== EARLY && ended[row] !== REMOVED || Math.round(over) === marked) continue;
    gone.push([row, until, next]);
    marked = Math.round(over);
  }
  drawThin(state, thin, box, colours.stay);
  for (const [row, x, next] of gone) drawGone(state, row, x, box, gone.length, next);
}

function drawStay(state, row, from, until, box, next) {
  const { context, run } = state, { stays } = run, width = until - from;
  if (stays.who[row] < 0) return drawSilence(state, row, from, until, box);
  const tone = toneOf(state, stays.who[row]);
  context.fillStyle = tone.fill;
  roundBar(context, from, box.y, width - (width > 4 ? 1 : 0), box.height);
  drawTerm(state, row, from, until, box, next);
  if (width > 14) drawWho(state, run.texts[stays.who[row]], tone.ink, from, until, box);
}

// A client's bars have the same shade everywhere, one of four; the name on the bar identifies the client.
function toneOf(state, who) {
  const client = state.run.tone[who], { tones } = state;
  return tones[client < 0 ? tones.length - 1 : client % (tones.length - 1)];
}

function drawWho(state, name, ink, from, until, box) {
  const { context, layout } = state, left = Math.max(from, layout.gutter) + 5;
  if (Math.min(until, layout.right) - left < context.measureText(name).width + 3) return;
  context.fillStyle = ink;
  context.textAlign = "left";
  context.fillText(name, left, box.y + box.height / 2 + 0.5);
}

// The end that the server announced for the key: a ribbon below the bar with a tick, unless the key was released. The
// ribbon stops at the next bar, below which it would look like the next key's.
function drawTerm(state, row, from, until, box, next) {
  const { context, run, colours } = state, { stays } = run, ended = stays.ended[row];
  if (stays.until[row] < 0 || ENDS[ended] === "released" || until - from < 3) return;
  const end = xOf(state, stays.start[row] + stays.until[row]), foot = box.y + box.height;
  context.fillStyle = colours.lease;
  context.fillRect(from, foot + 1, Math.min(end, until) - from, 3);
  if (ended !== EARLY && ended !== REMOVED) {
    context.fillRect(until, foot + 1, Math.max(Math.min(end, next) - until, 0), 3);
    context.fillStyle = colours.hold;
    if (end <= next) context.fillRect(end - 1, foot - 3, 1.5, 9);
  }
  if (stays.took[row] - stays.until[row] < STRAY) return;
  context.fillStyle = state.hatch.expired;
  context.fillRect(end, box.y, until - end, box.height);
}

// A key that disappeared early: a notch at that time, and dashes up to its announced end or the next bar. If there are
// many keys, each gets only a notch or a line.
function drawGone(state, row, x, box, many, next) {
  const { context, run, colours, layout } = state, { stays } = run, foot = box.y + box.height;
  context.fillStyle = colours.gone;
  context.fillRect(x - 1, box.y - 3, 2, box.height + 7);
  if (many > layout.width / 14) return;
  context.beginPath();
  context.moveTo(x - 4.5, box.y - 4);
  context.lineTo(x + 4.5, box.y - 4);
  context.lineTo(x, box.y + 3);
  context.fill();
  if (many > MOST_GHOSTS) return;
  nameGone(state, row, x, box, next);
  if (stays.until[row] < 0) return;
  const said = xOf(state, stays.start[row] + stays.until[row]), end = Math.min(said, next);
  for (let dash = x + 3; dash < end - 1; dash += 7) context.fillRect(dash, foot + 2, Math.min(4, end - 1 - dash), 1.5);
  if (said <= next) context.fillRect(said - 1, foot - 2, 1.5, 8);
}

// Name the owner beside the notch if the bar was too short for the name.
function nameGone(state, row, x, box, next) {
  const { context, run, layout } = state, { stays } = run, name = run.texts[stays.who[row]];
  const room = context.measureText(name).width + 10, short = x - Math.max(xOf(state, stays.start[row]), layout.gutter) < room;
  if (!short || Math.min(next, layout.right) - x < room || x < layout.gutter) return;
  context.textAlign = "left";
  context.fillText(name, x + 6, box.y + box.height / 2 + 0.5);
}

function drawSilence(state, row, from, until, box) {
  const { context, run } = state, said = run.stays.ended[row] === UNRECORDED ? "not recorded" : "no answer";
  context.fillStyle = state.hatch.silent;
  context.fillRect(from, box.y, until - from, box.height);
  drawWho(state, said, state.colours.muted, from, until, box);
}

// The offset of a host's wall clock as a step line: up is ahead, down is behind, scaled to the largest offset of the run.
function drawOffset(state, name, steps, middle, height) {
  const { context, view, colours } = state;
  const level = (offset) => middle - Math.sign(offset) * height * Math.sqrt(Math.abs(offset) / state.largestOffset);
  context.strokeStyle = colours.clock;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(xOf(state, view.from), level(offsetAt(steps, view.from)));
  for (const [at, offset] of steps) {
    if (at < view.from || at > view.until) continue;
    context.lineTo(xOf(state, at), level(offsetAt(steps, at - 1)));
    context.lineTo(xOf(state, at), level(offset));
  }
  context.lineTo(xOf(state, view.until), level(offsetAt(steps, view.until)));
  context.stroke();
  labelOffsets(state, name, steps, level);
}

// The name of the clock stands only in the first label, because the others follow in the same row.
function labelOffsets(state, name, steps, level) {
  const { context, layout, view, colours } = state;
  context.fillStyle = colours.ink;
  context.textAlign = "left";
  const inside = steps.filter(([at]) => at > view.from && at < view.until);
  const [, , pace] = stepOfClock(steps, view.from), shown = [[view.from, offsetAt(steps, view.from), pace], ...inside];
  shown.forEach(([at, offset, rate = 0], i) => {
    const x = Math.max(xOf(state, at), layout.gutter), next = i + 1 < shown.length ? xOf(state, shown[i + 1][0]) : layout.right;
    const short = clockText(offset) + paceText(rate), long = `${name}'s clock is ${short}`, room = next - x - 8;
    const text = i === 0 && context.measureText(long).width < room ? long : short;
    if (context.measureText(text).width < room) context.fillText(text, x + 5, level(offset) + (offset > 0 ? 8 : -8));
  });
}

