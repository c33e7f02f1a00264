// The message viewer: a sequence diagram through which one steps. A step is a request, a reply, or an event such as the
// expiry of a key. All rows of the run may be chosen from; only those in view are in the page.

function showSequence(data) {
  const by = (id) => document.getElementById(`sequence-${id}`), { run } = shownRun;
  const state = { data, by, run, all: allRows(data), at: 0, mode: "all", longestLease: shownRun.longestLease };
  data.groups.forEach((group, number) => by("groups").add(new Option(shortTitle(group.title), number)));
  if (data.groups[0].number === null) by("mode").value = "all";
  by("mode").closest("label").hidden = data.groups[0].number === null;
  listenToSteps(state);
  listenToLinks(state);
  const overlap = data.groups.findIndex((group) => group.kind === "overlap");
  if (!openAddress(state)) showGroup(state, Math.max(overlap, 0), by("mode").value, null, true);
  by("waits").hidden = true;
  shownRun.messages = callsOfTimeline(state);
  shownRun.searched = null;
  performance.mark("sequence-painted");
}

// Show a group that the reader has chosen, and its violation on the timeline.
function chooseGroup(state, number) {
  showGroup(state, number, state.mode);
  if (state.group.number !== null) showViolation(shownRun, indexOfViolation(shownRun, state.group.number));
}

// The buttons beside violations; those around which no message was kept have none.
function listenToLinks(state) {
  const { groups, messages } = state.data, { since } = messages;
  for (const button of document.querySelectorAll("[data-messages]")) {
    const number = groups.findIndex((group) => group.number === Number(button.dataset.messages)), group = groups[number];
    button.hidden = !group || !(since[lowerBound(since, group.first)] <= group.last);
    button.addEventListener("click", () => {
      chooseGroup(state, number);
      document.getElementById("messages").scrollIntoView();
      state.by("canvas").focus({ preventScroll: true });
    });
  }
}

function listenToSteps(state) {
  const { by } = state, canvas = by("canvas");
  const moves = { first: () => 0, previous: () => state.at - 1, next: () => state.at + 1, last: () => state.rows.code.length - 1 };
  for (const button of document.querySelectorAll("[data-step]")) {
    const move = moves[button.dataset.step];
    button.addEventListener("click", () => (move ? chooseStep(state, move()) : copySteps(state)));
  }
  const keys = { ArrowDown: "next", ArrowRight: "next", ArrowUp: "previous", ArrowLeft: "previous", Home: "first", End: "last" };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    chooseStep(state, moves[keys[event.key]]());
  });
  canvas.addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) chooseStep(state, +row.dataset.row);
  });
  canvas.addEventListener("scroll", () => scrolled(state));
  by("groups").addEventListener("change", () => chooseGroup(state, +by("groups").value));
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

function shortTitle(title) {
  return title.length > 70 ? `${title.slice(0, 69)}…` : title;
}

// Show a group in a mode, at its violation or at the first row for which find(code, time) is true. With quiet, the page
// keeps its address.
function showGroup(state, number, mode, find = null, quiet = false) {
  state.group = state.data.groups[number];
  state.mode = state.group.number === null ? "all" : mode;
  state.rows = rowsOf(state, state.group, state.mode);
  state.by("groups").value = number;
  state.by("mode").value = state.mode;
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

const MODES = ["decisive", "clients", "all"];

// Open the step that the address names. Say so if no step matches.
function openAddress(state) {
  const address = readAddress();
  state.by("lost").textContent = "";
  if (!address) return false;
  const opened = openStep(state, address, true);
  if (!opened) state.by("lost").textContent = `No kept message at this address: ${address.text}.`;
  document.getElementById("messages").scrollIntoView();
  return opened;
}

// Open the step that an address names exactly, or else the first one of its moment, message or call; false without one.
function openStep(state, address, quiet = false) {
  const places = placesOf(state, address);
  for (const test of stepTests(state, address)) {
    for (const [number, mode] of places) {
      const rows = rowsOf(state, state.data.groups[number], mode);
      if (!rows.code.some((code, i) => test(code, rows.time[i]))) continue;
      showGroup(state, number, mode, test, quiet);
      return true;
    }
  }
  return false;
}

// Tests of rows, the most exact one first. Without the position of an event, the event is the violation itself. Another
// version may write a report with other positions, so the time must agree, too.
function stepTests({ data }, { kind, value, event, reply, violation }) {
  const us = value * 1e6, { messages, events } = data;
  if (kind === "message") return [(code) => code >= 0 && messages.number[code >> 1] === value && (!reply || Boolean(code & 1))];
  if (kind === "call") return [(code) => code >= 0 && messages.call[code >> 1] === value];
  const named = event >= 0 ? event : events.findIndex(([, , what, , partOf]) => what === "violation" && partOf === violation);
  const exact = (code, time) => code === -1 - named && Math.abs(time - us) < 1;
  return [...(named < 0 ? [] : [exact]), (_, time) => time >= us - 1];
}

// The groups and modes that may show a step: those that the address names, then the others.
function placesOf({ data }, { kind, value, violation, mode }) {
  const us = value * 1e6, named = data.groups.findIndex(({ number }) => number === violation);
  const inside = ({ first, last }) => kind !== "t" || (us >= first && us - 1 <= last);
  const numbers = [...data.groups.keys()].filter((number) => inside(data.groups[number]));
  const modes = [mode, ...MODES].filter((one) => MODES.includes(one));
  const own = named < 0 ? [] : modes.map((one) => [named, one]);
  return [...own, ...["decisive", "clients"].flatMap((one) => numbers.map((number) => [number, one])), [0, "all"]];
}

// The address of the chosen step. Its first part alone opens a step of the same time or message.
function addressOf({ data, rows, at, group, mode }, step) {
  const parts = step.event ? [`t=${(step.time / 1e6).toFixed(6)}`, `event=${-1 - rows.code[at]}`] : [`message=${data.messages.number[step.i]}`];
  if (step.reply) parts.push("reply");
  if (group.number !== null) parts.push(`violation=${group.number}`);
  if (group.number !== null && mode !== "decisive") parts.push(`show=${mode}`);
  return `#${parts.join("&")}`;
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
