// Zooming, moving and selecting a violation. The only entry point:
//
//   showRun(run, { follow = false } = {})
//
// run is what readRun returns; the caller must not use it afterwards. The first call shows the first violation, or else
// the whole run. Each later call shows a newer state of the run, with the same time range. With follow, the range moves to
// the end if the end was in view; a view of the whole run stays one.

const NARROWEST = 20;  // µs
const SAME = 1e-3;  // µs, less than a pixel of the narrowest view

function setView(state, from, until) {
  const { run } = state, most = run.end * 1.04;
  const width = Math.min(Math.max(until - from, NARROWEST), most);
  const margin = Math.max(width * 0.02, run.end * 0.02);
  const middle = (from + until) / 2;
  const left = Math.min(Math.max(middle - width / 2, -margin), run.end + margin - width), before = state.view;
  state.view = { from: left, until: left + width };
  if (before && differs(before, state.view)) hideTip(state); else refresh(state);
}

function differs(one, other) {
  return Math.abs(one.from - other.from) + Math.abs(one.until - other.until) > SAME;
}

function zoom(state, factor, x) {
  const { view, layout } = state;
  const time = timeAt(state, x ?? (layout.gutter + layout.right) / 2);
  setView(state, time - (time - view.from) * factor, time + (view.until - time) * factor);
}

function move(state, share) {
  const { from, until } = state.view, by = (until - from) * share;
  setView(state, from + by, until + by);
}

function showWhole(state) {
  setView(state, -state.run.end * 0.02, state.run.end * 1.02);
}

function showViolation(state, index) {
  const { violations } = state.run;
  if (!violations.length) return;
  state.chosen = (index + violations.length) % violations.length;
  const violation = violations[state.chosen], view = viewOfViolation(state.run, violation);
  if (state.run.keys.includes(violation.key)) showKey(state, violation.key);
  setView(state, view.from, view.until);
  state.said.textContent = `${placeText(state.chosen, violations.length, state.run.found)}: ${violation.sentence}`;
}

// The place of a violation among those that the page has.
function placeText(index, count, found) {
  return `${index + 1} of ${count}${found > count ? ` shown, of ${found} found` : ""}`;
}

// Show a violation that the reader has chosen, among the messages, too.
function chooseViolation(state, index) {
  showViolation(state, index);
  state.messages?.showViolation(state.run.violations[state.chosen]?.number);
}

function refresh(state) {
  if (state.waiting) return;
  state.waiting = true;
  requestAnimationFrame(() => {
    state.waiting = false;
    draw(state);
    const { from, until } = state.view, digits = digitsFor((until - from) / 10);
    state.shown.textContent = `${seconds(Math.max(from, 0), digits)} to ${seconds(Math.min(until, state.run.end), digits)}`;
    state.canvas.dataset.from = Math.round(from);
    state.canvas.dataset.until = Math.round(until);
    if (!state.painted) performance.mark("timeline-painted");
    state.painted = true;
  });
}

function resize(state) {
  const width = state.canvas.parentElement.clientWidth;
  if (state.layout && state.layout.width === width && state.ratio === devicePixelRatio) return;
  state.ratio = devicePixelRatio || 1;
  state.layout = layOut(state.run, width);
  state.canvas.style.height = state.layout.height + "px";
  state.canvas.width = Math.round(width * state.ratio);
  state.canvas.height = Math.round(state.layout.height * state.ratio);
}

function readColours(state) {
  const style = getComputedStyle(document.documentElement), colours = {};
  const names = ["bg", "panel", "ink", "muted", "rule", "hold", "on-hold", "critical", "lease", "wait", "fault", "clock", "bad", "on-bad", "fail", "info", "stay", "gone", "token", "who-a", "who-b", "who-c", "who-d", "who-x", "on-who-a", "on-who-b", "on-who-c", "on-who-d", "on-who-x"];
  for (const name of names) colours[name.replace(/-(.)/g, (_, c) => c.toUpperCase())] = style.getPropertyValue("--" + name).trim();
  state.colours = colours;
  state.tones = ["A", "B", "C", "D", "X"].map((one) => ({ fill: colours["who" + one], ink: colours["onWho" + one] }));
  state.hatch = { bad: hatching(state, colours.bad, 0.55), expired: hatching(state, colours.panel, 0.75), silent: hatching(state, colours.muted, 0.5) };
}

function hatching(state, colour, alpha) {
  const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 }), pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.globalAlpha = alpha;
  pen.lineWidth = 1.4;
  for (const x of [-8, 0, 8]) {
    pen.moveTo(x, 8);
    pen.lineTo(x + 8, 0);
  }
  pen.stroke();
  return state.context.createPattern(tile, "repeat");
}

const KEYS = {
  ArrowLeft: (state) => move(state, -0.2),
  ArrowRight: (state) => move(state, 0.2),
  ArrowUp: (state) => zoom(state, 0.7),
  ArrowDown: (state) => zoom(state, 1 / 0.7),
  "+": (state) => zoom(state, 0.7),
  "=": (state) => zoom(state, 0.7),
  "-": (state) => zoom(state, 1 / 0.7),
  Home: showWhole,
  0: showWhole,
  n: (state) => chooseViolation(state, state.chosen + 1),
  p: (state) => chooseViolation(state, state.chosen - 1),
  ".": (state) => stepCursor(state, 1),
  ",": (state) => stepCursor(state, -1),
  PageDown: (state) => changeRow(state, 1),
  PageUp: (state) => changeRow(state, -1),
  "/": (state) => state.find?.focus(),
  Escape: hideTip,
};

function onKey(state, event) {
  const action = event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action(state);
}

// The wheel scrolls the page. With Ctrl (which a browser also reports for a pinch on a touchpad) it zooms around the
// pointer; sideways, or with Shift, it moves in time.
function onWheel(state, event) {
  const sideways = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    zoom(state, 1.0015 ** (Math.abs(event.deltaY) < 20 ? event.deltaY * 8 : event.deltaY), event.offsetX);
  } else if (event.shiftKey || Math.abs(sideways) > Math.abs(event.deltaY)) {
    event.preventDefault();
    move(state, sideways / 800);
  }
}

function onDown(state, event) {
  state.fingers.set(event.pointerId, event.offsetX);
  state.canvas.setPointerCapture(event.pointerId);
  state.down = state.fingers.size === 1 ? { x: event.offsetX, y: event.offsetY } : null;
  state.inOverview = event.offsetY >= state.layout.overview;
  if (state.inOverview) centre(state, event.offsetX);
}

function centre(state, x) {
  const half = (state.view.until - state.view.from) / 2, time = overviewTime(state, x);
  setView(state, time - half, time + half);
}

function onMove(state, event) {
  const before = state.fingers.get(event.pointerId);
  if (before === undefined) return point(state, event);
  state.tip.hidden = true;
  const others = [...state.fingers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
  state.fingers.set(event.pointerId, event.offsetX);
  if (others.length) pinch(state, others[0], before, event.offsetX);
  else if (state.inOverview) centre(state, event.offsetX);
  else move(state, (before - event.offsetX) / (state.layout.right - state.layout.gutter));
}

function pinch(state, fixed, before, after) {
  if (Math.abs(after - fixed) > 8 && Math.abs(before - fixed) > 8) zoom(state, Math.abs((before - fixed) / (after - fixed)), fixed);
}

function point(state, event) {
  state.pointer = event.offsetX >= state.layout.gutter && event.offsetY < state.layout.bottom ? event.offsetX : null;
  showTip(state, event.offsetX, event.offsetY);
  refresh(state);
}

const TAP = 10;  // px

// A mouse points wherever it goes up, a finger only where it taps.
function onUp(state, event) {
  const { down } = state;
  state.fingers.delete(event.pointerId);
  if (event.pointerType !== "touch" || (down && Math.hypot(event.offsetX - down.x, event.offsetY - down.y) < TAP)) point(state, event);
}

// A cancelled touch scrolls the page.
function onCancel(state, event) {
  state.fingers.delete(event.pointerId);
  hideTip(state);
}

// A finger that has gone up leaves the canvas, too. Its tooltip stays until the next tap.
function onLeave(state, event) {
  if (event.pointerType !== "touch") hideTip(state);
}

function listen(state) {
  const { canvas } = state, on = (name, handle, options) => canvas.addEventListener(name, (event) => handle(state, event), options);
  on("keydown", onKey);
  on("wheel", onWheel, { passive: false });
  on("pointerdown", onDown);
  on("pointermove", onMove);
  on("pointerup", onUp);
  on("pointercancel", onCancel);
  on("pointerleave", onLeave);
  document.addEventListener("pointerdown", (event) => { if (event.target !== canvas) hideTip(state); });
  on("blur", hideTip);
  listenToFind(state);
  const buttons = { whole: showWhole, next: KEYS.n, previous: KEYS.p, closer: KEYS["+"], wider: KEYS["-"] };
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => buttons[button.dataset.do](state));
  for (const button of document.querySelectorAll("[data-violation]")) button.addEventListener("click", () => goTo(state, button));
  state.keys.addEventListener("change", () => { showKey(state, state.keys.value); refresh(state); });
  new ResizeObserver(() => { resize(state); refresh(state); }).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(state); refresh(state); });
}

function indexOfViolation({ run }, wanted) {
  return run.violations.findIndex(({ number }) => number === wanted);
}

function goTo(state, button) {
  chooseViolation(state, indexOfViolation(state, Number(button.dataset.violation)));
  state.canvas.scrollIntoView({ block: "center" });
  state.canvas.focus({ preventScroll: true });
}

let shownRun = null;

function showRun(run, { follow = false } = {}) {
  const first = shownRun === null, before = shownRun?.run;
  shownRun ??= newState();
  const state = shownRun;
  state.run = run;
  state.largestOffset = Math.max(1, ...Object.values(run.offsets).map((steps) => largestOffset(steps, run.end)));
  state.longestLease = run.holds.lease.reduce((most, lease) => Math.max(most, lease), 0);
  state.longestGhost = longestGhost(run.stays);
  showKey(state, run.keys.includes(state.key) ? state.key : run.keys[0]);
  state.layout = null;
  resize(state);
  if (first) listen(state);
  if (first) showFirst(state); else keepView(state, before, follow);
}

function newState() {
  const canvas = document.getElementById("timeline-canvas");
  const state = { canvas, context: canvas.getContext("2d", { alpha: false }), fingers: new Map(), pointer: null, chosen: 0 };
  for (const name of ["tip", "said", "shown", "keys"]) state[name] = document.getElementById("timeline-" + name);
  readColours(state);
  return state;
}

// A clock is farthest from true time at a step, or just before one.
function largestOffset(steps, end) {
  const times = [...steps.flatMap(([at]) => [at - 1, at]), end];
  return times.reduce((most, time) => Math.max(most, Math.abs(offsetAt(steps, time))), 0);
}

// The longest time between the early end of a key and its announced expiry.
function longestGhost(stays) {
  let most = 0;
  for (let i = 0; i < stays.took.length; i++) if (stays.took[i] >= 0) most = Math.max(most, stays.until[i] - stays.took[i]);
  return most;
}

function showFirst(state) {
  const overlap = state.run.violations.findIndex((violation) => violation.kind === "overlap");
  if (state.run.violations.length) showViolation(state, Math.max(overlap, 0)); else showWhole(state);
}

function keepView(state, before, follow) {
  const { view: { from, until }, run } = state, width = until - from;
  if (follow && from <= 0 && until >= before.end) showWhole(state);
  else if (follow && until >= before.end) setView(state, run.end * 1.02 - width, run.end * 1.02);
  else setView(state, from, until);
}

// Select the key that the servers' lanes and the tokens show.
function showKey(state, key) {
  state.key = key;
  const { keys } = state, names = state.run.keys;
  if (keys.length !== names.length) keys.replaceChildren(...names.map((name) => new Option(name)));
  keys.value = key;
  keys.parentElement.hidden = names.length < 2;
}
