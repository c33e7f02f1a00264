// The message viewer: a sequence diagram around each violation, through which one steps. Reads the output of
// reports/sequence.py. A message has up to two steps: its request and its reply.

const SEQUENCE = { top: 6, row: 22, left: 92, least: 64, most: 150, head: 26 };

function showSequence(data) {
  const by = (id) => document.getElementById(`sequence-${id}`);
  const state = { data, by, group: null, steps: [], at: 0, lanes: [...data.clients, ...data.servers] };
  data.groups.forEach((group, number) => by("groups").add(new Option(shortTitle(group.title), number)));
  by("groups").addEventListener("change", () => showGroup(state, +by("groups").value));
  const moves = { first: () => 0, previous: () => state.at - 1, next: () => state.at + 1, last: () => state.steps.length - 1 };
  for (const button of document.querySelectorAll("[data-step]")) {
    const move = moves[button.dataset.step];
    button.addEventListener("click", () => (move ? chooseStep(state, move()) : copySteps(state)));
  }
  const keys = { ArrowDown: "next", ArrowRight: "next", ArrowUp: "previous", ArrowLeft: "previous", Home: "first", End: "last" };
  by("canvas").addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    chooseStep(state, moves[keys[event.key]]());
  });
  by("canvas").addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) chooseStep(state, +row.dataset.row);
  });
  addEventListener("hashchange", () => openAddress(state));
  if (!openAddress(state)) showGroup(state, 0);
  performance.mark("sequence-painted");
}

function shortTitle(title) {
  return title.length > 70 ? `${title.slice(0, 69)}…` : title;
}

function stepsOf(state, group) {
  const steps = [];
  for (const number of group.messages) {
    const message = state.data.messages[number], [sent, arrived, executed, replied] = message.times;
    if (message.request) steps.push({ number, message, reply: false, time: sent ?? arrived, lost: sent !== null && arrived === null });
    if (executed !== null) steps.push({ number, message, reply: true, time: executed, lost: sent !== null && replied === null });
  }
  return steps.sort((a, b) => a.time - b.time || a.number - b.number);
}

// Shows a group at its violation, or at the given step.
function showGroup(state, number, find = null) {
  state.group = state.data.groups[number];
  state.steps = stepsOf(state, state.group);
  state.by("groups").value = number;
  drawSequence(state);
  const start = state.steps.findIndex(find ?? ((step) => state.group.from !== null && step.time >= state.group.from));
  chooseStep(state, Math.max(0, find || state.group.from === null ? start : start - 1), find === null);
}

function openAddress(state) {
  const found = /^#(t|message|call)=([0-9.]+)$/.exec(location.hash);
  if (!found) return false;
  const value = +found[2], us = value * 1e6;
  const fits = { t: (step) => step.time >= us - 1, message: (step) => step.number === value, call: (step) => step.message.call === value };
  const groups = state.data.groups.map((group) => stepsOf(state, group));
  const inside = (steps) => found[1] !== "t" || (steps.length && steps[0].time <= us + 1);
  const number = groups.findIndex((steps) => inside(steps) && steps.some(fits[found[1]]));
  if (number < 0) return false;
  showGroup(state, number, fits[found[1]]);
  document.getElementById("messages").scrollIntoView();
  return true;
}

// Place of a time on the page: rows have the same height, and times between two steps lie between their rows.
function placeOf(state, us) {
  const { steps } = state, { top, row } = SEQUENCE;
  if (us === null) return top + steps.length * row;
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].time <= us) low = middle + 1; else high = middle;
  }
  if (low === 0) return top;
  if (low === steps.length) return top + steps.length * row;
  const before = steps[low - 1].time, after = steps[low].time;
  return top + (low - 0.5 + (after > before ? (us - before) / (after - before) : 0)) * row;
}

function drawSequence(state) {
  const { top, row, left, least, most, head } = SEQUENCE, { lanes, steps, data, group } = state;
  const lane = Math.min(most, Math.max(least, (state.by("canvas").clientWidth - left - 20) / lanes.length));
  const width = left + lanes.length * lane + 20, height = top + steps.length * row + 10;
  const x = state.x = Object.fromEntries(lanes.map((name, number) => [name, left + lane * (number + 0.5)]));
  const parts = [];
  const band = (kind, at, wide, from, until, title) => {
    const y = placeOf(state, from), end = placeOf(state, until);
    if (from !== null && end > y) parts.push(`<rect class="${kind}" x="${at}" y="${y}" width="${wide}" height="${end - y}"><title>${escaped(title)}</title></rect>`);
  };
  for (const fault of data.faults) band("fault", left, lanes.length * lane, fault.from, fault.until, fault.name);
  if (group.from !== null) band("broken", left, lanes.length * lane, group.from, group.until, group.title);
  for (const name of lanes) parts.push(`<line class="lane" x1="${x[name]}" x2="${x[name]}" y1="0" y2="${height}"/>`);
  const names = lanes.map((name) => `<text x="${x[name]}" y="17" text-anchor="middle">${escaped(name)}</text>`);
  for (const one of data.holds) if (one.host in x) band("held", x[one.host] - 4, 8, one.from, one.until, `${one.who} believes that it holds the lock`);
  for (const one of data.stays) if (one.host in x) band("kept", x[one.host] - 4, 8, one.from, one.until, `${one.host} has the key for ${one.who}`);
  steps.forEach((step, number) => parts.push(drawStep(state, step, number, x, width)));
  state.by("canvas").innerHTML = `<div class="lanes" style="width: ${width}px"><svg width="${width}" height="${head}" aria-hidden="true">${names.join("")}</svg></div><svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${parts.join("")}</svg>`;
}

function drawStep(state, step, number, x, width) {
  const { top, row } = SEQUENCE, { message } = step, y = top + (number + 0.7) * row;
  const from = x[step.reply ? message.server : message.client], to = x[step.reply ? message.client : message.server];
  const end = step.lost ? (from + to) / 2 : to, way = Math.sign(to - from);
  const text = step.lost ? `${shortText(step)} ✕` : shortText(step);
  return `<g class="row${step.lost ? " lost" : ""}" data-row="${number}"><rect class="back" x="0" y="${y - row * 0.7}" width="${width}" height="${row}"/>`
    + `<text x="4" y="${y}">${clock(step.time)}</text><line class="arrow" x1="${from}" x2="${end - 5 * way}" y1="${y}" y2="${y}"/>`
    + `<path class="head" d="M${end} ${y}l${-8 * way} -4v8z"/><text x="${(from + to) / 2}" y="${y - 4}" text-anchor="middle">${escaped(text)}</text>`
    + `<title>${escaped(fullText(step))}</title></g>`;
}

function shortText(step) {
  const text = step.reply ? step.message.reply : step.message.request;
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}

function fullText(step) {
  const { message } = step;
  const [from, to] = step.reply ? [message.server, message.client] : [message.client, message.server];
  return `${clock(step.time)} ${from} → ${to}: ${step.reply ? message.reply : message.request}${step.lost ? " (lost)" : ""}`;
}

function clock(us) {
  return us === null || us === undefined ? "–" : `${(us / 1e6).toFixed(6)} s`;
}

function escaped(text) {
  return String(text).replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
}

function chooseStep(state, number, quiet = false) {
  if (!state.steps.length) return;
  state.at = Math.min(Math.max(number, 0), state.steps.length - 1);
  const step = state.steps[state.at], canvas = state.by("canvas");
  canvas.querySelector(".chosen")?.classList.remove("chosen");
  canvas.querySelector(`[data-row="${state.at}"]`).classList.add("chosen");
  const y = SEQUENCE.top + state.at * SEQUENCE.row;
  if (y < canvas.scrollTop || y > canvas.scrollTop + canvas.clientHeight - 3 * SEQUENCE.row) canvas.scrollTop = y - canvas.clientHeight / 2;
  const near = Math.min(state.x[step.message.client], state.x[step.message.server]);
  const far = Math.max(state.x[step.message.client], state.x[step.message.server]);
  if (near < canvas.scrollLeft + 20 || far > canvas.scrollLeft + canvas.clientWidth - 20) canvas.scrollLeft = near - 40;
  describeStep(state, step);
  if (!quiet) history.replaceState(null, "", `#message=${step.number}`);
}

function describeStep(state, step) {
  const { message } = step, { by } = state;
  by("title").textContent = `Step ${state.at + 1} of ${state.steps.length}: ${message.name}, ${step.reply ? "reply" : "request"}`;
  const [sent, arrived, executed, replied] = message.times;
  const facts = [
    ["Connection", message.connection], ["Request", message.request || "none: the server sent this by itself"], ["Reply", message.reply || "none"],
    ["Sent", clock(sent)], ["Arrived", clock(arrived)], ["Executed", clock(executed)], ["Replied", clock(replied)],
    ["Call", message.callText || "none: sent in the background"],
    [`${message.server} before`, message.before || "not known"], [`${message.server} after`, message.after || "not known"],
    ["Holders by belief", holdersAt(state.data.holds, step.time)], ["Holders by servers", holdersAt(state.data.stays, step.time, true)],
  ];
  if (state.group.left) facts.push(["Not shown", `${state.group.left} more messages, which trace.jsonl.gz has`]);
  by("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  showSource(state, message.place === null ? null : state.data.places[message.place]);
}

function holdersAt(list, us, servers = false) {
  const found = list.filter((one) => one.from <= us && (one.until === null || one.until >= us));
  return found.map((one) => (servers ? `${one.host}: ${one.who}` : one.who)).join(", ") || "none";
}

function element(tag, text) {
  return Object.assign(document.createElement(tag), { textContent: text });
}

function showSource(state, place) {
  const box = state.by("source");
  if (!place) return box.replaceChildren();
  const code = document.createElement("pre");
  place.lines.forEach((line, number) => {
    const marked = place.first + number === place.line, text = `${String(place.first + number).padStart(4)} ${line}`;
    code.append(element(marked ? "mark" : "span", marked ? text : `${text}\n`));
  });
  box.replaceChildren(element("span", `${place.text} in ${place.function}`), code);
}

async function copySteps(state) {
  const text = [state.group.title, ...state.steps.map(fullText)].join("\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  state.by("copied").textContent = `${state.steps.length} steps copied`;
}

showSequence(JSON.parse(document.getElementById("sequence-data").textContent));
