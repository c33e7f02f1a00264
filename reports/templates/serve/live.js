// Live page: fetches the state of the run every second, shows it, and advances the timeline until the run ends.

const EVERY = 1000, AGAIN = 3000, LAST = 15e6;
// Events of clients on containers arrive one client at a time, so a release may arrive this many seconds late.
const UNHEARD = 0.2;
const live = { read: -1, mode: "last", view: null };
const at = (id) => document.getElementById("live-" + id);
const WORDS = { starting: "Starting", running: "Running now", checking: "Checking", interrupted: "Interrupted" };

function text(id, value) {
  if (at(id).textContent !== value) at(id).textContent = value;
}

async function ask() {
  if (document.hidden) return setTimeout(ask, EVERY);
  let told;
  try {
    const answer = await fetch(`data.json?from=${live.read}`);
    if (answer.status === 404) return lost("The run is no longer in the store.");
    if (!answer.ok) throw new Error(answer.status);
    told = await answer.json();
  } catch {
    lost("harness serve does not answer. Is it still running? This page shows the last answer.");
    return setTimeout(ask, AGAIN);
  }
  await show(told).catch((error) => lost(`The timeline cannot be drawn: ${error.message ?? error}`));
  const ended = told.state === "over" || told.state === "interrupted";
  if (!ended || told.behind !== null) setTimeout(ask, told.behind === null ? EVERY : 0);
}

function lost(sentence) {
  at("trouble").hidden = !sentence;
  text("trouble", sentence);
}

async function show(told) {
  const { moment } = told;
  lost(moment.trouble && `No more can be shown: ${moment.trouble}.`);
  showState(told);
  showSoFar(told);
  showTime(told);
  showFigures(moment);
  list("keys", [...moment.keys.map((key) => keyLine(key, moment)), ...more(moment)], "No acquire yet.");
  list("faults", moment.faults.map((fault) => faultLine(fault, moment)), "No active fault.");
  at("cut").hidden = !moment.cut;
  if (told.timeline) showTimeline(readRun(await decompress(told.timeline)));
  live.read = told.read;
}

function showState({ state, said, verdict, behind }) {
  const story = behind === null ? said : `Reading the history recorded so far: ${Math.floor(behind * 100)} %.`;
  const words = verdict ? verdict.summary : story;
  at("story").hidden = !words;
  text("story", words);
  text("word", verdict ? verdict.word : WORDS[state]);
  const ended = state === "over" || state === "interrupted";
  at("links").hidden = !ended;
  at("link").textContent = verdict ? "Open the run and its report" : "Open the run";
  at("passed").hidden = at("now").hidden = ended;
  const look = verdict ? verdict.judgement : state === "interrupted" ? "interrupted" : "running";
  at("box").className = "verdict " + look;
  const icon = document.getElementById("icon-" + (look === "interrupted" ? "broken" : look));
  if (icon && live.icon !== look) at("icon").replaceChildren(icon.content.cloneNode(true));
  live.icon = look;
  document.title = `${at("word").textContent}${at("lock").textContent} · harness`;
}

function showSoFar({ verdict, moment: { violation, watched, calls } }) {
  const made = `${calls.toLocaleString("en")} ${calls === 1 ? "call" : "calls"}`;
  const none = watched ? `No violation so far, ${made}.` : `Mutual exclusion is judged at the end, ${made} so far.`;
  at("so-far").hidden = verdict !== null;
  at("so-far").className = violation ? "story bad" : "story";
  // Only a violation is announced: the number of calls changes every second.
  if (violation) at("so-far").setAttribute("role", "alert");
  text("so-far", violation ? `Violation at ${violation.since.toFixed(3)} s: ${violation.sentence}` : none);
}

function showTime({ state, moment }) {
  const limit = at("bar").hasAttribute("data-limit") ? at("bar").max : null;
  const passed = limit === null ? moment.elapsed : Math.min(moment.elapsed, limit);
  if (limit !== null || state === "over") at("bar").value = limit === null ? 1 : passed;
  text("time", `${passed.toFixed(1)}${limit === null ? "" : " of " + limit} s`);
}

function showFigures(moment) {
  for (const name of ["granted", "refused", "unknown"]) text(name, moment[name].toLocaleString("en"));
  text("rate", moment.calls_per_second.toFixed(moment.calls_per_second < 9.95 ? 1 : 0));
  for (const name of ["p50", "p99"]) text(name, moment[name] === null ? "–" : span(Math.round(moment[name] * 1e6)));
}

function list(id, lines, none) {
  const empty = Object.assign(document.createElement("li"), { className: "muted", textContent: none });
  at(id).replaceChildren(...(lines.length ? lines : [empty]));
}

function line(...parts) {
  const item = document.createElement("li");
  item.append(...parts);
  return item;
}

function part(name, words, look = "") {
  return Object.assign(document.createElement(name), { textContent: words, className: look });
}

function age(moment, since) {
  const passed = Math.round((moment.elapsed - since) * 1e6);
  return passed < 1000 ? "less than 1 ms" : span(passed);
}

function keyLine({ key, holders, shared }, moment) {
  if (!holders.length) return line(part("strong", key), " free");
  const who = holders.map(([client, since]) => `${client} for ${age(moment, since)}`).join(" and ");
  const together = moment.elapsed - Math.max(...holders.map(([, since]) => since));
  if (holders.length === 1 || shared || together < UNHEARD) return line(part("strong", key), ` ${who}`);
  return line(part("strong", key), part("span", ` ${holders.length} at once: ${who}`, "bad"));
}

function more({ more_keys: count }) {
  return count ? [line(part("span", `and ${count} more keys`, "muted"))] : [];
}

function faultLine(fault, moment) {
  const where = fault.hosts.length ? ` on ${fault.hosts.join(", ")}` : "";
  const seen = fault.seen === null ? "not checked yet" : fault.seen ? "took effect" : "NOT observed to take effect";
  const since = `${age(moment, fault.since)} ago`;
  return line(part("strong", fault.fault), `${where}, ${since}`, part("small", [seen, fault.observed].filter(Boolean).join(": ")));
}

// After the reader moved or zoomed, follow the end again only on request, or if the end was in view.
function showTimeline(seen) {
  const view = shownRun?.view;
  if (live.view && (view.from !== live.view.from || view.until !== live.view.until)) live.mode = "free";
  showRun(seen, { follow: true });
  const { run, keys } = shownRun;
  for (const item of document.querySelectorAll("[data-tokens]")) item.hidden = !run.tokens;
  keys.parentElement.hidden ||= !run.tokens;
  follow();
}

function follow() {
  const { run } = shownRun;
  if (live.mode === "last") setView(shownRun, Math.max(run.end - LAST, 0), run.end + 0.02 * LAST);
  live.view = { ...shownRun.view };
  at("follow").setAttribute("aria-pressed", String(live.mode === "last"));
}

at("follow").addEventListener("click", () => {
  live.mode = live.mode === "last" ? "free" : "last";
  if (shownRun) follow();
});
ask();
