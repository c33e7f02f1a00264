// The hosts at the chosen step: what each one's wall clock shows, what it holds or has, and what is left of the lease.

function showHosts(state, us) {
  state.by("hosts").replaceChildren(...state.lanes.map((name) => hostRow(state, name, us)));
}

function hostRow(state, name, us) {
  const { run, data } = state, row = document.createElement("tr"), offset = offsetAt(run.offsets[name] || [], us);
  const head = Object.assign(element("th", name), { scope: "row" });
  const shown = element("td", wallText(data.wall + (us + offset) / 1000));
  const error = Object.assign(element("td", clockText(offset)), { className: offset ? "off" : "" });
  const owned = data.clients.includes(name) ? holdsAt(state, name, us) : keysAt(data, name, us);
  const what = element("td", owned.map((one) => one.text ?? `holds ${one.key}`).join(", ") || "–"), left = document.createElement("td");
  left.append(...owned.filter((one) => one.left !== null).map(leaseBar));
  row.append(head, shown, error, what, left);
  return row;
}

function wallText(ms) {
  return new Date(ms).toISOString().slice(11, 23);
}

// The keys that a server has at a time, with what is left until the expiry that it announced.
function keysAt(data, name, us) {
  return data.keys.flatMap((key, number) => {
    const row = stateAt(data, name, number, us), { states } = data;
    if (row < 0) return [];
    if (!states.answers[row]) return [{ text: "does not answer", left: null }];
    if (states.owner[row] < 0) return [];
    const lease = states.left[row], left = lease < 0 ? null : states.time[row] + lease - us;
    return [{ text: `${key} for ${ownerName(data, row)}`, lease, left }];
  });
}

function leaseBar(one) {
  const line = document.createElement("div"), full = document.createElement("i"), part = document.createElement("b");
  line.className = one.left > 0 ? "left" : "left ended";
  part.style.width = `${Math.min(100, Math.max(0, 100 * one.left / Math.max(one.lease, 1)))}%`;
  full.append(part);
  line.append(full, element("span", one.left > 0 ? `${span(Math.round(one.left))} of ${span(one.lease)}` : `ended ${span(Math.round(-one.left))} ago`));
  return line;
}
