// The rows of the message viewer. A message has up to two, its request and its reply; each event has one. The code of a
// row is twice the message's position, plus one for the reply, or -1 minus the event's position.

function allRows(data) {
  const { messages, events } = data, times = [], codes = [];
  const add = (time, code) => { times.push(time); codes.push(code); };
  events.forEach(([time], i) => add(time, -1 - i));
  for (let i = 0; i < messages.since.length; i++) if (messages.request[i] >= 0) add(messages.since[i], 2 * i);
  for (let i = 0; i < messages.since.length; i++) if (messages.executed[i] >= 0) add(messages.since[i] + messages.executed[i], 2 * i + 1);
  const order = Array.from(times, (_, i) => i).sort((a, b) => times[a] - times[b]);
  return { time: Float64Array.from(order, (i) => times[i]), code: Int32Array.from(order, (i) => codes[i]) };
}

// The rows of a group in a mode: "decisive", "clients" (those that the violation names) or "all".
function rowsOf(state, group, mode) {
  const { all, data } = state, fits = mode === "all" ? () => true : rowTest(state, group, mode);
  const kept = new Int32Array(all.code.length);
  let count = 0;
  for (let i = 0; i < kept.length; i++) if (fits(all.code[i], all.time[i])) kept[count++] = i;
  const rows = kept.subarray(0, count);
  return { code: Int32Array.from(rows, (i) => all.code[i]), time: Float64Array.from(rows, (i) => all.time[i]), data };
}

function rowTest(state, group, mode) {
  const { messages, hosts, clients } = state.data, named = new Set(group.clients), everyClient = new Set(clients);
  const known = hosts.map((name) => named.has(name)), inside = (time) => time >= group.first && time <= group.last;
  const earlier = mode === "decisive" ? lastingEvents(state, group) : null;
  return (code, time) => {
    if (code >= 0) return mode === "decisive" ? group.decisive.has(code >> 1) : known[messages.client[code >> 1]];
    const [, host, kind, , partOf, key] = state.data.events[-1 - code];
    if (kind === "story") return mode !== "decisive" || time <= group.last;
    if (mode === "decisive" && key && group.key && key !== group.key) return false;
    if (mode === "decisive" && !inside(time)) return earlier.has(-1 - code);
    if (kind === "violation" || kind === "over") return mode !== "decisive" || partOf === group.number;
    if (mode === "decisive" && partOf !== null) return group.holds.includes(partOf);
    return named.has(host) || !everyClient.has(host);
  };
}

// The events before a group whose effect lasts: the beginnings of faults, and the last step of each clock.
function lastingEvents({ data, run }, group) {
  const found = new Set(), clocks = new Map();
  data.events.forEach(([time, host, kind, text], i) => {
    if (time >= group.first) return;
    if (kind === "clock") clocks.set(host, text.endsWith("correct") ? null : i);
    if (kind === "fault" && run.faults.some((fault) => fault.from === time && (fault.until ?? Infinity) >= group.first)) found.add(i);
  });
  for (const i of clocks.values()) if (i !== null) found.add(i);
  return found;
}

// What a row is, for drawing and for text.
function stepAt(state, position) {
  const { rows, data } = state, code = rows.code[position], time = rows.time[position];
  if (code < 0) {
    const [, host, kind, text] = data.events[-1 - code];
    return { event: kind, host, text, time };
  }
  const i = code >> 1, reply = Boolean(code & 1), { messages, hosts, texts } = data, times = timesOf(data, i);
  const client = hosts[messages.client[i]], server = hosts[messages.server[i]];
  const way = reply ? { from: server, to: client, end: times[3] } : { from: client, to: server, end: times[1] };
  const missing = times[0] !== null && way.end === null;
  return { i, reply, time, times, client, server, ...way, lost: missing, text: texts[reply ? messages.reply[i] : messages.request[i]] };
}

function stepText(state, step) {
  if (step.event) return `${clock(step.time)} ${step.text}`;
  const lost = step.lost ? (state.run.end - step.time < 1e6 ? " (lost, or under way at the end)" : " (lost)") : "";
  return `${clock(step.time)} ${step.from} → ${step.to}: ${step.text}${lost}`;
}

function clock(us) {
  return us === null || us === undefined ? "–" : `${(us / 1e6).toFixed(6)} s`;
}

// Place of a time in the diagram: rows have the same height, and times between two rows lie between them.
function placeOf({ rows }, us) {
  const { top, row } = SEQUENCE, count = rows.time.length;
  if (us === null) return top + count * row;
  const low = lowerBound(rows.time, us + 1e-6);
  if (low === 0) return top;
  if (low === count) return top + (rows.time[count - 1] === us ? count - 0.3 : count) * row;
  const before = rows.time[low - 1], after = rows.time[low];
  return top + (low - 0.3 + 0.6 * (after > before ? (us - before) / (after - before) : 0)) * row;
}
