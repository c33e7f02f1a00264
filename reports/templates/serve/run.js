// Page of a run without a verdict, which may be in progress or being checked: load it again when its state has changed.
// An event says only that some run has changed.
const verdict = document.querySelector(".verdict");

new EventSource("/events").addEventListener("runs", async () => {
  try {
    const answer = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".verdict");
    if (fresh?.className !== verdict.className) location.reload();
  } catch {
    return;  // the server has gone; the next event comes when it is back
  }
});
