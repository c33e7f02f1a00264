// Draws the fencing tokens: a step up for each grant, and the resource's answers to the tokens of accesses.

const ACCEPTED = 0, STALE = 1, REFUSED = 2;

function drawTokens(state) {
  const { run, context, layout, colours } = state;
  if (!run.tokens) return;
  context.fillStyle = colours.rule;
  context.fillRect(layout.gutter, layout.bottom - 1, layout.right - layout.gutter, 1);
  state.tokenRange = tokenRange(state);
  drawSteps(state);
  drawShown(state);
  drawTokenLabels(state);
}

// The rows of one table that are in view, and the grant before them, whose token is still the highest there.
function tokenRows(state, name, before = 0) {
  const { run, view } = state, its = run.tokens[name].of[state.key];
  if (!its) return [];
  return its.rows.slice(Math.max(0, lowerBound(its.times, view.from) - before), lowerBound(its.times, view.until));
}

// The range of the tokens in view.
function tokenRange(state) {
  const { grants, shown } = state.run.tokens;
  let low = Infinity, high = -Infinity;
  for (const row of tokenRows(state, "grants", 1)) low = Math.min(low, grants.token[row]), high = Math.max(high, grants.token[row]);
  for (const row of tokenRows(state, "shown")) low = Math.min(low, shown.token[row]), high = Math.max(high, shown.token[row]);
  return low > high ? { low: 0, high: 1 } : { low, high: Math.max(high, low + 1) };
}

function tokenY(state, token) {
  const { low, high } = state.tokenRange, { layout } = state;
  return layout.bottom - 14 - (token - low) / (high - low) * (TOKENS - 38);
}

// Draw each step as two thin rectangles, and steps within one pixel as one, from the lowest to the highest of them.
function drawSteps(state) {
  const { context, run, colours, layout } = state, { grants } = run.tokens;
  const rows = tokenRows(state, "grants", 1), end = Math.min(xOf(state, run.recorded), layout.right);
  context.fillStyle = colours.token;
  let column = NaN, low = 0, high = 0, y = 0;
  const flush = (until) => {
    context.fillRect(column, high, 1.5, low - high + 1.5);
    context.fillRect(column, y, Math.max(until - column, 1.5), 1.5);
  };
  for (const row of rows) {
    const x = Math.max(Math.round(xOf(state, grants.time[row])), layout.gutter), next = tokenY(state, grants.token[row]) - 0.75;
    if (x !== column && !Number.isNaN(column)) flush(x);
    if (x !== column) [low, high] = Number.isNaN(column) ? [next, next] : [y, y];
    [column, y, low, high] = [x, next, Math.max(low, next), Math.min(high, next)];
  }
  if (rows.length) flush(Math.max(end, column));
}

// Draw accepted accesses first. Refused and stale ones are drawn over them, and never left out.
function drawShown(state) {
  const { run, layout } = state, { shown } = run.tokens, rows = tokenRows(state, "shown"), marks = [];
  const apart = rows.length > layout.width ? 4 : 1;
  let last = NaN;
  for (const row of rows) {
    const x = xOf(state, shown.time[row]), verdict = shown.verdict[row];
    if (verdict === STALE || verdict === REFUSED) marks.push([row, x, tokenY(state, shown.token[row])]);
    else if (!(Math.abs(x - last) < apart)) drawDot(state, verdict, last = x, tokenY(state, shown.token[row]));
  }
  for (const [row, x, y] of marks) if (shown.verdict[row] === REFUSED) drawRefused(state, x, y);
  for (const [row, x, y] of marks) if (shown.verdict[row] === STALE) drawStale(state, row, x, y);
}

function drawDot({ context, colours }, verdict, x, y) {
  context.fillStyle = verdict === ACCEPTED ? colours.token : colours.info;
  context.beginPath();
  context.arc(x, y, 2.6, 0, 7);
  context.fill();
}

function drawRefused({ context, colours }, x, y) {
  context.strokeStyle = colours.fail;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - 4, y - 4);
  context.lineTo(x + 4, y + 4);
  context.moveTo(x + 4, y - 4);
  context.lineTo(x - 4, y + 4);
  context.stroke();
}

// A stale token that was accepted: a diamond below the higher token that should have excluded it.
function drawStale(state, row, x, y) {
  const { context, colours, run } = state, top = Math.max(tokenY(state, run.tokens.shown.highest[row]), state.layout.tokens + 4);
  context.fillStyle = colours.bad;
  context.fillRect(x - 0.75, top, 1.5, y - top);
  context.beginPath();
  for (const [dx, dy] of [[0, -6], [6, 0], [0, 6], [-6, 0]]) context.lineTo(x + dx, y + dy);
  context.closePath();
  context.fill();
  context.strokeStyle = colours.panel;
  context.lineWidth = 1.2;
  context.stroke();
}

function tokenText(run, token) {
  return run.tokens.names ? run.tokens.names[token] : "#" + token;
}

// Write the token above its step if the step is wide enough.
function drawTokenLabels(state) {
  const { context, run, colours, layout } = state, { grants } = run.tokens, rows = tokenRows(state, "grants", 1);
  if (rows.length > layout.width / 12) return;
  context.fillStyle = colours.muted;
  context.textAlign = "left";
  rows.forEach((row, i) => {
    const from = Math.max(xOf(state, grants.time[row]), layout.gutter);
    const until = i + 1 < rows.length ? xOf(state, grants.time[rows[i + 1]]) : layout.right;
    const text = run.tokens.names ? shorten(context, tokenText(run, grants.token[row]), 70) : tokenText(run, grants.token[row]);
    if (until - from > context.measureText(text).width + 6) context.fillText(text, from + 3, tokenY(state, grants.token[row]) - 9);
  });
}
