// The message viewer: a sequence diagram through which one steps. A step is a request, a reply, or an event such as the
// expiry of a key. All rows of the run may be chosen from; only those in view are in the page.

function showSequence(data) {
  const by = (id) => document.getElementById(`sequence-${id}`), { run } = shownRun;
  const state = { data, by, run, all: allRows(data), at: 0, mode: "all", longestLease: shownRun.longestLease };
  for (const group of data.groups) group.title = titleOf(run, group);
  if (data.groups[0].number === null) by("mode").value = "all";
  by("mode").closest("label").hidden = data.groups[0].number === null;
  listenToSteps(state);
  listenToGroups(state);
  const overlap = data.groups.findIndex((group) => group.kind === "overlap");
  if (!openAddress(state)) showGroup(state, Math.max(overlap, 0), by("mode").value, null, true);
  listAddresses(state);
  by("waits").hidden = true;
  shownRun.messages = callsOfTimeline(state);
  shownRun.searched = null;
  performance.mark("sequence-painted");
}

function listenToSteps(state) {
  const { by } = state, canvas = by("canvas");
  const moves = { first: () => 0, previous: () => state.at - 1, next: () => state.at + 1, last: () => state.rows.code.length - 1 };
  for (const button of document.querySelectorAll("[data-step]")) {
    const move = moves[button.dataset.step];
    button.addEventListener("click", () => (move ? chooseStep(state, move()) : copySteps(state)));
  }
  const step = (name) => () => chooseStep(state, moves[name]());
  const keys = {
    ArrowDown: step("next"), ArrowRight: step("next"), ArrowUp: step("previous"), ArrowLeft: step("previous"),
    Home: step("first"), End: step("last"), n: () => stepGroup(state, 1), p: () => stepGroup(state, -1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) chooseStep(state, +row.dataset.row);
  });
  canvas.addEventListener("scroll", () => scrolled(state));
  by("mode").addEventListener("change", () => changeMode(state, by("mode").value));
  addEventListener("hashchange", () => openAddress(state));
  addEventListener("beforeprint", () => { state.printing = true; drawWindow(state); });
  addEventListener("afterprint", () => { state.printing = false; drawSequence(state); chooseStep(state, state.at, true); });
}

// Draw again once a frame, however many events the wheel makes.
function scrolled(state) {
  if (state.drawing) return;
  state.drawing = true;
  requestAnimationFrame(() => {
    state.drawing = false;
    if (!state.printing) showRows(state);
  });
}

// Show a group in a mode, at its violation or at the first row for which find(code, time) is true. With quiet, the page
// keeps its address.
function showGroup(state, number, mode, find = null, quiet = false) {
  state.group = state.data.groups[number];
  state.mode = state.group.number === null ? "all" : mode;
  state.rows = rowsOf(state, state.group, state.mode);
  state.by("mode").value = state.mode;
  listGroups(state);
  drawSequence(state);
  const { rows, group } = state;
  const broken = ([, , kind, , partOf]) => kind === "violation" && partOf === group.number;
  const wanted = find ?? ((code) => group.from !== null && code < 0 && broken(state.data.events[-1 - code]));
  const start = rows.code.findIndex((code, i) => wanted(code, rows.time[i]));
  chooseStep(state, Math.max(0, start), quiet);
}

// The same step in another mode, or the next one that the mode shows.
function changeMode(state, mode) {
  const code = state.rows.code[state.at], time = state.rows.time[state.at], number = state.data.groups.indexOf(state.group);
  const rows = rowsOf(state, state.group, mode), same = rows.code.includes(code);
  showGroup(state, number, mode, same ? (one) => one === code : (_, at) => at >= time);
}

function chooseStep(state, number, quiet = false) {
  const { rows } = state;
  if (!rows.code.length) return;
  state.at = Math.min(Math.max(number, 0), rows.code.length - 1);
  const step = stepAt(state, state.at), canvas = state.by("canvas"), { row, top, head } = SEQUENCE, y = top + state.at * row;
  if (y < canvas.scrollTop || y > canvas.scrollTop + canvas.clientHeight - head - 2 * row) canvas.scrollTop = y - 0.7 * (canvas.clientHeight - head);
  const places = [step.from, step.to, step.host].filter((host) => host in state.x).map((host) => state.x[host]);
  if (places.length && (Math.min(...places) < canvas.scrollLeft + 20 || Math.max(...places) > canvas.scrollLeft + canvas.clientWidth - 20)) canvas.scrollLeft = Math.min(...places) - 40;
  drawHeader(state, step.time);
  showRows(state);
  describeStep(state, step);
  if (quiet) return;
  state.by("lost").textContent = "";
  history.replaceState(null, "", addressOf(state, step));
}

const COPIED = 2000;  // steps

async function copySteps(state) {
  const count = state.rows.code.length, first = Math.max(0, Math.min(state.at - COPIED / 2, count - COPIED)), last = Math.min(count, first + COPIED);
  const lines = Array.from({ length: last - first }, (_, i) => stepText(state, stepAt(state, first + i)));
  const text = [state.group.title, ...lines].join("\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  state.by("copied").textContent = `${lines.length} steps copied`;
}

runShown.then(() => decompress(document.getElementById("sequence-data").textContent)).then(readSequence).then(showSequence).catch((error) => {
  document.getElementById("sequence-waits").textContent = `The messages cannot be shown: ${error.message ?? error}`;
});
