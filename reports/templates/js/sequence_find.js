// What the timeline calls: a search of messages by client, server, command, request or reply, and the messages of the
// violation that it shows.

function callsOfTimeline(state) {
  return {
    find: (words) => matchingMessages(state.data, words),
    timeOf: (i) => state.data.messages.since[i],
    show: (i) => showFound(state, i),
    showViolation: (number) => showMessagesOf(state, number),
  };
}

// A word that is the name of a host must be one of the two hosts (tokens may contain c1); another one may be any part of
// a text.
function matchingMessages({ messages, hosts, texts }, words) {
  const tests = words.map((word) => {
    const host = hosts.findIndex((name) => name.toLowerCase() === word);
    if (host >= 0) return (i) => messages.client[i] === host || messages.server[i] === host;
    const fits = texts.map((text) => text.toLowerCase().includes(word));
    return (i) => fits[messages.name[i]] || fits[messages.request[i]] || fits[messages.reply[i]];
  });
  const found = [], hasRow = (i) => messages.request[i] >= 0 || messages.executed[i] >= 0;
  for (let i = 0; i < messages.since.length; i++) if (hasRow(i) && tests.every((test) => test(i))) found.push(i);
  return found;
}

function showFound(state, i) {
  openStep(state, { kind: "message", value: state.data.messages.number[i] });
  return stepText(state, stepAt(state, state.at));
}

// Show the messages around a violation, if it is among the listed ones.
function showMessagesOf(state, violation) {
  const group = state.data.groups.findIndex(({ number }) => number === violation);
  if (group >= 0) showGroup(state, group, state.mode);
}
