// The part of a report's address that names a moment: #t=12.151 (s), #message=7, #call=739 (its entry) or #violation=2.
// The message viewer adds what tells one step from others: &event=57 (its position), &reply, &violation=2, and &show=all
// (the mode).

const AROUND = 2e6;  // µs

function readAddress() {
  const found = /^#(t|message|call|violation)=/.exec(location.hash), parts = new URLSearchParams(location.hash.slice(1));
  const number = (name) => Number(parts.get(name) || NaN);
  return found && {
    kind: found[1], value: number(found[1]), text: location.hash, event: number("event"), reply: parts.has("reply"),
    violation: number("violation"), mode: parts.get("show"),
  };
}

// Move the timeline to the time that the address names, or else to the violation of its step. The violation that it names,
// or that begins at that time, becomes the chosen one.
function openMoment(state) {
  const address = readAddress(), { run } = state, alone = document.getElementById("sequence-data") === null;
  if (!address) return;
  const named = indexOfViolation(state, address.violation);
  if (address.kind !== "t" && !alone) return named < 0 ? null : showViolation(state, named);
  if (alone) state.canvas.scrollIntoView({ block: "center" });
  const us = address.value * 1e6;
  if (address.kind === "violation") return named < 0 ? announce(state, `The run has no violation at ${address.text}.`) : showViolation(state, named);
  if (address.kind === "message") return announce(state, `This report has no messages, so it cannot open ${address.text}.`);
  if (address.kind === "call") return openCall(state, address);
  if (!(us >= 0 && us <= run.end + 1)) return announce(state, `The run has no moment at ${address.text}: it lasts ${seconds(run.end)}.`);
  const violation = run.violations.findIndex(({ from }, i) => Math.abs(from - us) < 1 && (named < 0 || i === named));
  if (violation >= 0) return showViolation(state, violation);
  if (named >= 0) state.chosen = named;
  const half = Math.min(state.view.until - state.view.from, AROUND) / 2;
  setView(state, us - half, us + half);
  announce(state, `The timeline shows the time around ${seconds(us, 6)}.`);
}

function openCall(state, { value, text }) {
  const { calls, clients } = state.run, row = lowerBound(calls.invoked, value);
  if (calls.invoked[row] !== value) return announce(state, `The run has no call at ${text}.`);
  showCall(state, row);
  putCursor(state, clients[calls.lane[row]], calls.start[row]);
}
