// Describes the chosen step: the message or event, its call, the keys before and after, the holders and the source.

function describeStep(state, step) {
  const { by, rows } = state, count = rows.code.length, what = step.event ? step.text : `${state.data.texts[state.data.messages.name[step.i]]}, ${step.reply ? "reply" : "request"}`;
  by("title").textContent = `Step ${state.at + 1} of ${count}: ${what}`;
  by("said").textContent = `Step ${state.at + 1} of ${count}: ${stepText(state, step)}`;
  const facts = [...(step.event ? eventFacts(state, step) : messageFacts(state, step)), ["Holders by belief", beliefText(state, step.time)], ["Holders by servers", ownersText(state, step.time)]];
  by("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  const place = step.event ? -1 : state.data.messages.place[step.i];
  showSource(state, place < 0 ? null : state.data.places[place]);
  showHosts(state, step.time);
}

function eventFacts(state, step) {
  const keys = serversOf(state, step).flatMap((server) => keyFacts(state.data, server, step.time, step.time));
  return [["Time", clock(step.time)], ["Event", step.text], ["Host", step.host || "none"], ...keys];
}

// The servers that an event concerns: of a fault all of its hosts, since its event names the first one.
function serversOf({ data, run }, { event, host, time }) {
  const end = { fault: "from", heal: "until" }[event], faults = end ? run.faults.filter((fault) => fault[end] === time && fault.hosts.includes(host)) : [];
  const named = new Set([host, ...faults.flatMap((fault) => fault.hosts)]);
  return data.servers.filter((name) => named.has(name));
}

// The keys of a server before and after a message or an event; null for a time that is not known.
function keyFacts(data, server, reached, done) {
  const textAt = (us, upTo) => (data.keys.length && us !== null && keysText(data, server, us, upTo)) || "not known";
  return [[`${server} before`, textAt(reached, false)], [`${server} after`, textAt(done, true)]];
}

function messageFacts(state, step) {
  const { data } = state, { messages, texts } = data, { i, server } = step, [sent, arrived, executed, replied] = step.times;
  const reached = arrived ?? executed, done = executed ?? reached;
  return [
    ["Message", String(messages.number[i])], ["Connection", texts[messages.connection[i]]],
    ["Request", texts[messages.request[i]] || "none: the server sent this by itself"], ["Reply", texts[messages.reply[i]] || "none"],
    ["Sent", clock(sent)], ["Arrived", clock(arrived)], ["Executed", clock(executed)], ["Replied", clock(replied)],
    ["Call", callText(state.run, messages.call[i])], ...keyFacts(data, server, reached, done),
  ];
}

function callText({ calls, texts, clients }, index) {
  const row = index < 0 ? -1 : lowerBound(calls.invoked, index);
  if (row < 0 || calls.invoked[row] !== index) return "none: sent in the background";
  return `${texts[calls.f[row]]} ${texts[calls.key[row]]} by ${clients[calls.lane[row]] ?? texts[calls.lane[row]]}, began ${seconds(calls.start[row])} (entry ${index})`;
}

// The holds of a client at a time, with what is left of each lease (negative: for how long it has ended).
function holdsAt({ run }, name, us) {
  const lane = run.lanes[run.clients.indexOf(name)], found = [];
  if (lane) eachVisible(run.holds, lane.holds, us, us, (row) => {
    const lease = run.holds.lease[row];
    if (endOf(run.holds, row, run.recorded) > us) found.push({ key: run.texts[run.holds.key[row]], lease, left: lease < 0 ? null : run.holds.start[row] + lease - us });
  });
  return found;
}

function leaseText({ left }) {
  return left === null ? "" : left > 0 ? `lease ${span(Math.round(left))} left` : `lease ended ${span(Math.round(-left))} ago`;
}

function beliefText(state, us) {
  const found = state.run.clients.flatMap((name) => holdsAt(state, name, us).map((one) => `${name}${state.run.manyKeys ? ` ${one.key}` : ""}${one.left === null ? "" : ` (${leaseText(one)})`}`));
  return found.join(", ") || "none";
}

function ownersText({ data, run }, us) {
  const found = run.servers.filter((name) => data.lane.has(name)).flatMap((name) => data.keys.map((key, number) => {
    const row = stateAt(data, name, number, us);
    return row < 0 || !data.states.answers[row] || data.states.owner[row] < 0 ? null : `${name}: ${ownerName(data, row)}${run.manyKeys ? ` has ${key}` : ""}`;
  }));
  return found.filter(Boolean).join(", ") || "none";
}

// The client that owns a key in a state, or else the beginning of its value.
function ownerName({ states, texts, setters, writers }, row) {
  const value = texts[states.owner[row]];
  return writers.get(value) ?? (setters[row] >= 0 ? texts[setters[row]] : value.slice(0, 12));
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
