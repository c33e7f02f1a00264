// Addresses of steps: opens the step that the page's address names, and writes the address of the chosen step.

const MODES = ["decisive", "clients", "all"];
const TRIED = 8;  // groups

// Open the step that the address names. Say so if no step matches.
function openAddress(state) {
  const address = readAddress();
  state.by("lost").textContent = "";
  if (!address) return false;
  const opened = openStep(state, address, true);
  if (!opened) state.by("lost").textContent = `No kept ${address.kind === "violation" ? "violation" : "message"} at this address: ${address.text}.`;
  document.getElementById("messages").scrollIntoView();
  return opened;
}

// Open the step that an address names exactly, or else the first one of its moment, message, call or violation; false
// without one.
function openStep(state, address, quiet = false) {
  const us = momentOf(state.data, address);
  if (us === null) return false;
  const places = placesOf(state, address, us);
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

// The time of what an address names, µs; null if the page does not have it.
function momentOf({ messages, groups }, { kind, value }) {
  if (kind === "t") return value * 1e6;
  if (kind === "violation") return groups.find(({ number }) => number === value)?.from ?? null;
  const i = kind === "call" ? messages.call.indexOf(value) : lowerBound(messages.number, value);
  return messages[kind === "call" ? "call" : "number"][i] === value ? messages.since[i] : null;
}

// Tests of rows, the most exact one first. Without the position of an event, the event is the violation itself. Another
// version may write a report with other positions, so the time must agree, too.
function stepTests({ data }, { kind, value, event, reply, violation }) {
  const us = value * 1e6, { messages, events } = data;
  if (kind === "message") return [(code) => code >= 0 && messages.number[code >> 1] === value && (!reply || Boolean(code & 1))];
  if (kind === "call") return [(code) => code >= 0 && messages.call[code >> 1] === value];
  const named = event >= 0 ? event : events.findIndex(([, , what, , partOf]) => what === "violation" && partOf === violation);
  if (kind === "violation") return [(code) => code === -1 - named];
  const exact = (code, time) => code === -1 - named && Math.abs(time - us) < 1;
  return [...(named < 0 ? [] : [exact]), (_, time) => time >= us - 1];
}

// The groups and modes that may show a step: those that the address names, then the others around its time. The nearest
// one shows all messages.
function placesOf({ data }, { kind, violation, mode }, us) {
  const { groups } = data, away = ({ first, last }) => Math.max(0, first - us, us - 1 - last);
  const nearest = [...groups.keys()].sort((a, b) => away(groups[a]) - away(groups[b]));
  const named = groups.findIndex(({ number }) => number === violation);
  const modes = [mode, ...MODES].filter((one) => MODES.includes(one));
  const own = named < 0 ? [] : modes.map((one) => [named, one]);
  const around = nearest.filter((number) => kind !== "t" || away(groups[number]) === 0).slice(0, TRIED);
  return [...own, ...["decisive", "clients"].flatMap((one) => around.map((number) => [number, one])), [nearest[0], "all"]];
}

// The address of the chosen step. Its first part alone opens a step of the same time or message.
function addressOf({ data, rows, at, group, mode }, step) {
  const parts = step.event ? [`t=${(step.time / 1e6).toFixed(6)}`, `event=${-1 - rows.code[at]}`] : [`message=${data.messages.number[step.i]}`];
  if (step.reply) parts.push("reply");
  if (group.number !== null) parts.push(`violation=${group.number}`);
  if (group.number !== null && mode !== "decisive") parts.push(`show=${mode}`);
  return `#${parts.join("&")}`;
}

// The forms of addresses with what each opens, as links to what the first group has.
function listAddresses(state) {
  const { data, group, rows } = state, { messages } = data;
  const found = rows.code.findIndex((code) => code >= 0 && !(code & 1) && messages.call[code >> 1] >= 0);
  const own = addressOf(state, stepAt(state, state.at)), after = (rows.time[state.at] / 1e6).toFixed(3);
  const forms = [[`#t=${after}`, `the first step from ${after} s on`], [own, "one step, exactly: the address bar has this form after each step"]];
  if (found >= 0) {
    const i = rows.code[found] >> 1, number = messages.number[i], call = messages.call[i];
    forms.push([`#message=${number}`, `message ${number}`], [`#message=${number}&reply`, `the reply to message ${number}`]);
    forms.push([`#call=${call}`, `the first message of the call that entry ${call} began`]);
  }
  if (group.number !== null) forms.push([`#violation=${group.number}`, `violation ${group.number}, here and on the timeline`]);
  state.by("addresses").replaceChildren(...forms.flatMap(([address, text]) => addressLine(address, text)));
}

function addressLine(address, text) {
  const form = document.createElement("dt");
  form.append(Object.assign(element("a", address), { href: address }));
  return [form, element("dd", text)];
}
