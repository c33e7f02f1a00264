// Finds messages for the search of the timeline: by client, server, command, request or reply.

function messageSearch(state) {
  return {
    find: (words) => matchingMessages(state.data, words),
    timeOf: (i) => state.data.messages.since[i],
    show: (i) => showFound(state, i),
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
