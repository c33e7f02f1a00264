// The data of the message viewer, which reports/sequence.py writes and reports/columns.py compresses.

function readSequence({ data, column }) {
  readTable(data.messages, column, "number", "since");
  readTable(data.states, column, "time");
  for (const group of data.groups) group.decisive = new Set(sums(column(group.decisive)));
  data.texts[-1] = "";
  data.lane = new Map(data.hosts.map((name, i) => [name, i]));
  data.servers = data.hosts.filter((name) => !data.clients.includes(name));
  data.slots = statesBySlot(data);
  data.setters = settersOf(data);
  data.writers = writersOf(data);
  return data;
}

// For each server and key: the positions of its states, in the order of time.
function statesBySlot({ states, hosts, keys }) {
  const slots = Array.from({ length: hosts.length * keys.length }, () => ({ rows: [], times: [] }));
  for (let i = 0; i < states.time.length; i++) {
    const slot = slots[states.slot[i]];
    slot.rows.push(i);
    slot.times.push(states.time[i]);
  }
  return slots;
}

// For each state: the client that gave its key the owner that it has, where the senders of messages are known. Another
// client may have changed its expiry since.
function settersOf({ states, slots }) {
  const setters = new Int32Array(states.time.length);
  for (const { rows } of slots) rows.forEach((i, at) => {
    const before = rows[at - 1];
    setters[i] = at && states.owner[before] === states.owner[i] ? setters[before] : states.by[i];
  });
  return setters;
}

// The client that wrote each owner's value. A value that several clients wrote, such as 1, names none of them.
function writersOf({ states, texts, setters }) {
  const writers = new Map();
  for (let i = 0; i < states.time.length; i++) {
    const value = texts[states.owner[i]], name = texts[setters[i]];
    if (states.owner[i] >= 0 && setters[i] >= 0) writers.set(value, writers.has(value) && writers.get(value) !== name ? null : name);
  }
  return writers;
}

// The state of a key on a server after all that happened before a time, or (with upTo) up to it; -1 without one.
function stateAt(data, host, key, us, upTo = true) {
  const slot = data.slots[data.lane.get(host) * data.keys.length + key];
  const after = slot ? lowerBound(slot.times, us + (upTo ? 0.5 : -0.5)) : 0;
  return after ? slot.rows[after - 1] : -1;
}

function keysText(data, host, us, upTo) {
  const known = data.keys.filter((_, key) => data.slots[data.lane.get(host) * data.keys.length + key]?.rows.length);
  return known.map((name) => `${name}: ${stateText(data, stateAt(data, host, data.keys.indexOf(name), us, upTo), us)}`).join("; ");
}

function stateText({ states, texts }, row, us) {
  if (row < 0) return "no owner";
  if (!states.answers[row]) return "no answer";
  if (states.owner[row] < 0) return "no owner";
  const by = states.by[row] >= 0 ? ` (${texts[states.by[row]]})` : "";
  const left = states.left[row] < 0 ? "" : `, ${span(Math.round(Math.max(0, states.time[row] + states.left[row] - us)))} left`;
  return texts[states.owner[row]].slice(0, 40) + by + left;
}

// Times of a message, µs; null where it is not known.
function timesOf({ messages }, i) {
  return ["sent", "arrived", "executed", "replied"].map((name) => (messages[name][i] < 0 ? null : messages.since[i] + messages[name][i]));
}
