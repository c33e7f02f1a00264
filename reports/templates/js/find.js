// Finds calls by their number in the history (#12), client, key, function, value, result or error; after them messages,
// where the message viewer has set state.messages: { find(words), show(position), timeOf(position),
// showViolation(number) }.

function listenToFind(state) {
  const form = document.getElementById("timeline-find");
  if (!form) return;
  const search = (direction) => findNext(state, form.elements.text.value, form.querySelector("output"), direction);
  form.addEventListener("submit", (event) => { event.preventDefault(); search(1); });
  form.elements.text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.shiftKey) return;
    event.preventDefault();
    search(-1);
  });
  state.find = form.elements.text;
}

function findNext(state, text, output, direction) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean), { calls, clients } = state.run;
  if (!words.length) return output.value = "";
  if (state.searched?.text !== text || state.searched.run !== state.run) state.searched = newSearch(state, text, words);
  const { searched } = state, { rows, messages } = searched, count = rows.length + messages.length;
  const wanted = state.messages ? "call or message" : "call";
  output.value = count ? "" : `no ${wanted} matches`;
  if (!count) return announce(state, `No ${wanted} matches ${text.trim()}.`);
  searched.at = searched.at === null ? firstInView(state, searched) : (searched.at + direction + count) % count;
  output.value = `${searched.at + 1} of ${count}`;
  if (searched.at >= rows.length) return showMessage(state, messages[searched.at - rows.length]);
  const row = rows[searched.at];
  showCall(state, row);
  putCursor(state, clients[calls.lane[row]], calls.start[row]);
}

function newSearch(state, text, words) {
  return { text, run: state.run, rows: matchingCalls(state.run, words), messages: state.messages?.find(words) ?? [], at: null };
}

// The first call that begins in the view, or without calls the first message; or else the first match.
function firstInView(state, { rows, messages }) {
  const { start } = state.run.calls, { from, until } = state.view;
  const times = rows.length ? rows.map((row) => start[row]) : messages.map(state.messages.timeOf);
  return Math.max(times.findIndex((time) => time >= from && time <= until), 0);
}

function showMessage(state, position) {
  const time = state.messages.timeOf(position), half = (state.view.until - state.view.from) / 2;
  if (time < state.view.from || time > state.view.until) setView(state, time - half, time + half);
  announce(state, `The messages below show ${state.messages.show(position)}`);
}

// Zoom in so far that the call is wider than a few pixels, and never out.
function showCall(state, row) {
  const { calls } = state.run, length = Math.max(calls.took[row], 1000);
  const width = Math.min(state.view.until - state.view.from, length * 60);
  const middle = calls.start[row] + Math.max(calls.took[row], 0) / 2;
  setView(state, middle - width / 2, middle + width / 2);
}

function matchingCalls(run, words) {
  const names = new Set([...run.clients, ...run.keys, ...run.texts].map((name) => name.toLowerCase()));
  const tests = words.map((word) => testOf(run, word, names.has(word)));
  const rows = [];
  for (let row = 0; row < run.calls.start.length; row++) if (tests.every((test) => test(row))) rows.push(row);
  return rows;
}

// A word that is a whole name must be equal (c1 is not c10); another one may be any part of a text.
function testOf({ calls, texts, clients }, word, whole) {
  const number = /^#(\d+)$/.exec(word);
  if (number) return (row) => [0, calls.done[row]].some((done) => calls.invoked[row] + done === Number(number[1]));
  const fits = whole ? (text) => text.toLowerCase() === word : (text) => text.toLowerCase().includes(word);
  const known = new Map(texts.map((text, i) => [i, fits(text)])), lanes = clients.map(fits), outcomes = OUTCOMES.map(fits);
  const columns = [calls.f, calls.key, calls.asked, calls.got, calls.error];
  return (row) => lanes[calls.lane[row]] || outcomes[calls.outcome[row]] || columns.some((column) => known.get(column[row]));
}
