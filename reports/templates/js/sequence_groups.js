// The violations whose messages the viewer shows, and the steps from one to another. A report may have hundreds of them:
// the list has only those near the shown one.

const LISTED = 20;  // violations before the shown one, and after it

function titleOf({ violations }, { number }) {
  return number === null ? "The whole run, which has no violation" : `Violation ${number}: ${violations.find((one) => one.number === number).sentence}`;
}

function optionText({ number, kind, from, title }) {
  return number === null ? title : `Violation ${number}: ${kind.replaceAll("-", " ")} at ${seconds(from)}`;
}

function listenToGroups(state) {
  const { by, data } = state, ways = { previous: -1, next: 1 };
  by("groups").addEventListener("change", () => chooseGroup(state, +by("groups").value));
  for (const button of document.querySelectorAll("[data-group]")) {
    button.hidden = data.groups.length < 2;
    button.addEventListener("click", () => stepGroup(state, ways[button.dataset.group]));
  }
  for (const button of document.querySelectorAll("[data-messages]")) listenToLink(state, button);
}

// A button beside a violation, hidden if no message around it was kept.
function listenToLink(state, button) {
  const { groups } = state.data, number = groups.findIndex((group) => group.number === Number(button.dataset.messages));
  button.hidden = number < 0 || !hasMessages(state.data, groups[number]);
  button.addEventListener("click", () => {
    chooseGroup(state, number);
    document.getElementById("messages").scrollIntoView();
    state.by("canvas").focus({ preventScroll: true });
  });
}

function hasMessages({ messages: { since } }, { first, last }) {
  return since[lowerBound(since, first)] <= last;
}

function stepGroup(state, by) {
  const { groups } = state.data;
  chooseGroup(state, (groups.indexOf(state.group) + by + groups.length) % groups.length);
}

// Show a group that the reader has chosen, and its violation on the timeline.
function chooseGroup(state, number) {
  showGroup(state, number, state.mode);
  if (state.group.number !== null) showViolation(shownRun, indexOfViolation(shownRun, state.group.number));
}

// List the violations near the shown one. The first and the last option lead to those that are left out.
function listGroups(state) {
  const { groups } = state.data, at = groups.indexOf(state.group), from = Math.max(0, at - LISTED), until = Math.min(groups.length, at + LISTED + 1);
  const near = groups.slice(from, until).map((group, i) => new Option(optionText(group), from + i));
  if (from) near.unshift(new Option(`… ${from} earlier`, from - 1));
  if (until < groups.length) near.push(new Option(`… ${groups.length - until} later`, until));
  state.by("groups").replaceChildren(...near);
  state.by("groups").value = at;
  state.by("place").value = state.group.number === null ? "" : placeText(at, groups.length, state.run.found);
  state.by("gap").textContent = gapText(state.data, state.group);
}

// Say which messages around a group are not in the page.
function gapText(data, group) {
  const { since } = data.messages;
  if (!hasMessages(data, group)) return "No message around this violation is in this page; its events are.";
  return data.dropped && since[since.length - 1] < group.last ? `Messages after ${seconds(since[since.length - 1])} are not in this page.` : "";
}
