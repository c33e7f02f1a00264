// The data of the message viewer, which reports/sequence.py writes and reports/columns.py compresses.

function readSequence({ data, column }) {
  readTable(data.messages, column, "number", "since");
  readTable(data.states, column, "time");
  for (const group of data.groups) group.decisive = new Set(column(group.decisive));
  data.texts[-1] = "";
  data.lane = new Map(data.hosts.map((name, i) => [name, i]));
  data.servers = data.hosts.filter((name) => !data.clients.includes(name));
  data.slots = statesBySlot(data);
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

// The client that first wrote each owner's value, where the senders of messages are known.
function writersOf({ states, texts }) {
  const writers = new Map();
  for (let i = 0; i < states.time.length; i++) {
    const owner = states.owner[i];
    if (owner >= 0 && states.by[i] >= 0 && !writers.has(texts[owner])) writers.set(texts[owner], texts[states.by[i]]);
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
