// Describes the item under the pointer: an operation with its entries, a hold, a fault and its observation, a server's
// key and clock, or a token.

function describe(state, x, y) {
  const { layout, run } = state, time = timeAt(state, x);
  if (x < layout.gutter || x > layout.right || y > layout.bottom) return null;
  if (y < layout.top) return describeFaults(state, time, (fault, i) => layout.rows[i] === Math.floor((y - AXIS) / FAULT_ROW));
  const lane = Math.floor((y - layout.top) / CLIENT_LANE);
  if (lane < run.lanes.length) return describeClient(state, run.lanes[lane], time);
  if (run.tokens && y >= layout.tokens) return describeToken(state, x, y);
  const server = Math.floor((y - layout.servers) / layout.lane);
  return server >= 0 && server < run.servers.length ? describeServer(state, server, time) : null;
}

function describeFaults(state, time, belongs) {
  const { run } = state;
  const lines = run.faults.filter((fault, i) => fault.from !== null && belongs(fault, i) && fault.from <= time
    && time <= (fault.until ?? run.end)).flatMap((fault) => faultLines(fault));
  return lines.length ? { title: seconds(time, digitsFor(perPixel(state))), lines } : null;
}

function faultLines(fault) {
  const until = fault.until === null ? "never healed" : "healed at " + seconds(fault.until);
  const seen = fault.seen === false ? "not observed to take effect" : fault.observed;
  return [`${fault.name} on ${fault.hosts.join(", ")}: injected at ${seconds(fault.from)}, ${until}`, seen].filter(Boolean);
}

function describeServer(state, server, pointed) {
  const { run } = state, name = run.servers[server], looked = state.layout.keyRow > 0;
  const row = looked ? nearest(run.stays, stayLane(state, server), pointed, perPixel(state) * 4, run.recorded) : -1;
  const time = within(run, run.stays, row, pointed);
  const clock = `${name}'s clock is ${clockText(offsetAt(run.offsets[name] || [], time))}`;
  const faults = describeFaults(state, time, (fault) => fault.hosts.includes(name));
  const lines = [...(looked ? stayLines(state, server, row) : []), clock, ...(faults ? faults.lines : [])];
  return { title: titled(state, name, time), lines };
}

function titled(state, name, time) {
  return `${name} at ${seconds(time, digitsFor(perPixel(state)))}`;
}

// The time under the pointer, or the nearer end of a row that is only near it, so that the text is true at that time.
function within({ recorded }, columns, row, pointed) {
  return row < 0 ? pointed : Math.min(Math.max(pointed, columns.start[row]), endOf(columns, row, recorded));
}

function stayLines(state, server, row) {
  const { run } = state, { stays } = run;
  if (row < 0) return [`does not have ${state.key}`];
  const start = stays.start[row], end = start + stays.took[row], said = start + stays.until[row];
  if (stays.who[row] < 0 && stays.ended[row] === UNRECORDED) return [`its state was not recorded after ${seconds(start, 6)}`];
  if (stays.who[row] < 0) return [`no answer from ${seconds(start)} ${stays.took[row] < 0 ? "on" : "to " + seconds(end)}`, ...silenceLines(state, row)];
  const renewed = stays.renewed[row] ? `, renewed ${times(stays.renewed[row])}` : "";
  const lines = [`has ${state.key} for ${run.texts[stays.who[row]]} from ${seconds(start, 6)}${renewed}`];
  if (stays.moved[row]) lines.push(movedLine(run, run.servers[server], stays.moved[row]));
  if (stays.until[row] >= 0) lines.push(`expires at ${seconds(said, 6)} by its own clock`);
  return [...lines, ...endLines(ENDS[stays.ended[row]], end, stays.until[row] < 0 ? null : said)];
}

function times(count) {
  return count === 1 ? "once" : count + " times";
}

// If the sender of each command is known, and the owner sent none, the end moved because the server's clock jumped.
function movedLine(run, name, count) {
  return run.told && run.offsets[name] ? `its end was moved ${times(count)} by the clock` : `its end moved ${times(count)}`;
}

function silenceLines(state, row) {
  return ENDS[state.run.stays.ended[row]] === "early" ? [`came back without ${state.key}`] : [];
}

// Describe the end of a key on a server; said is its announced expiry.
function endLines(ended, end, said) {
  const early = said === null ? "although no client had released it" : `${span(said - end)} early, although no client had released it`;
  const late = said !== null && end - said > STRAY ? `, ${span(end - said)} late` : "";
  return {
    "released": [`released at ${seconds(end, 6)}`],
    "expired": [`expired at ${seconds(end, 6)}${late}`],
    early: [`gone at ${seconds(end, 6)}, ${early}`],
    removed: [`removed at ${seconds(end, 6)} by another client's command`],
    "no answer": [`no answer from ${seconds(end, 6)} on`],
    "not recorded": [`not recorded after ${seconds(end, 6)}`],
    open: [],
  }[ended];
}

// The grant or access within a few pixels, or else the highest token at that time.
function describeToken(state, x, y) {
  const { run } = state, { shown, grants } = run.tokens;
  let best = null, nearest = 10;
  for (const row of tokenRows(state, "shown")) {
    const away = Math.hypot(xOf(state, shown.time[row]) - x, tokenY(state, shown.token[row]) - y) - (shown.verdict[row] === ACCEPTED ? 0 : 2);
    if (away < nearest) [best, nearest] = [row, away];
  }
  if (best !== null) return shownLines(run, best);
  const time = timeAt(state, x), its = run.tokens.grants.of[state.key];
  const row = its ? its.rows[lowerBound(its.times, time + 1) - 1] : undefined;
  if (row === undefined) return null;
  const who = run.clients[grants.lane[row]];
  return { title: `Token ${tokenText(run, grants.token[row])}`, lines: [`granted with ${state.key} to ${who} at ${seconds(grants.time[row], 6)}`] };
}

function shownLines(run, row) {
  const { shown } = run.tokens, what = run.texts[shown.f[row]], higher = shown.highest[row];
  const said = ["accepted", "accepted although stale", "refused by the resource", "the answer was lost"][shown.verdict[row]];
  const lines = [`${run.clients[shown.lane[row]]}'s ${what} at ${seconds(shown.time[row], 6)}: ${said}`];
  if (higher > shown.token[row]) lines.push(`the highest token of another client by then: ${tokenText(run, higher)}`);
  return { title: `Token ${tokenText(run, shown.token[row])}`, lines };
}

function describeClient(state, lane, pointed) {
  const { run } = state;
  const reach = perPixel(state) * 4;
  const hold = nearest(run.holds, lane.holds, pointed, reach, run.recorded);
  const call = nearest(run.calls, lane.calls, pointed, reach, run.recorded);
  const time = hold < 0 ? within(run, run.calls, call, pointed) : within(run, run.holds, hold, pointed);
  const faults = describeFaults(state, time, (fault) => fault.hosts.includes(lane.name));
  const lines = [...(hold < 0 ? [] : holdLines(run, hold)), ...(call < 0 ? [] : callLines(run, call)), ...(faults ? faults.lines : [])];
  return lines.length ? { title: titled(state, lane.name, time), lines } : null;
}

// The shortest row that covers the time, give or take a few pixels.
function nearest(columns, lane, time, reach, end) {
  let best = -1, shortest = Infinity, left = 5000;
  for (let i = lowerBound(lane.reach, time - reach); i < lane.rows.length && left-- > 0; i++) {
    const row = lane.rows[i], until = endOf(columns, row, end);
    if (columns.start[row] > time + reach) break;
    const away = Math.max(columns.start[row] - time, time - until, 0);
    const length = until - columns.start[row] + away * 1000;
    if (until >= time - reach && length < shortest) [best, shortest] = [row, length];
  }
  return best;
}

function holdLines(run, row) {
  const { holds } = run, start = holds.start[row];
  const end = holds.took[row] < 0 ? "to the end" : `to ${seconds(start + holds.took[row], 6)}, ${span(holds.took[row])}`;
  const fence = holds.fence[row] < 0 ? "" : `, fence ${run.texts[holds.fence[row]]}`;
  const mode = holds.shared?.[row] ? " shared" : "";
  const lines = [`holds ${run.texts[holds.key[row]]}${mode} from ${seconds(start, 6)} ${end}${fence}`];
  if (holds.lease[row] >= 0) lines.push(`lease valid to ${seconds(start + holds.lease[row], 6)}`);
  return lines;
}

function callLines(run, row) {
  const { calls, texts } = run, index = calls.invoked[row];
  const name = `${texts[calls.f[row]]} ${texts[calls.key[row]]}`.trim();
  const lines = [`#${index} process ${calls.process[row]} ${name} ${texts[calls.asked[row]]} at ${seconds(calls.start[row], 6)}`];
  if (calls.took[row] < 0) return [...lines, run.live ? "has not returned yet" : "never returned: it may have taken effect"];
  const said = [texts[calls.got[row]], texts[calls.error[row]]].filter(Boolean).join(" ");
  lines.push(`#${index + calls.done[row]} ${OUTCOMES[calls.outcome[row]]} ${said} after ${span(calls.took[row])}`);
  if (calls.wall[row]) lines.push(`this client's clock is ${clockText(calls.wall[row] * 1000)}`);
  return lines;
}

function showTip(state, x, y) {
  const found = describe(state, x, y), { tip } = state;
  tip.hidden = found === null;
  if (found === null) return;
  const title = document.createElement("strong");
  title.textContent = found.title;
  const lines = found.lines.map((text) => Object.assign(document.createElement("span"), { textContent: text }));
  tip.replaceChildren(title, ...lines);
  const room = state.layout.width - tip.offsetWidth - 4;
  tip.style.left = Math.max(4, Math.min(x + 14, room)) + "px";
  tip.style.top = y + 18 + "px";
}

function hideTip(state) {
  state.pointer = null;
  state.tip.hidden = true;
  refresh(state);
}
