// The report's own run. The message viewer waits until the run is shown.

const runShown = decompress(document.getElementById("run-data").textContent).then((found) => {
  showRun(readRun(found));
  openMoment(shownRun);
  addEventListener("hashchange", () => openMoment(shownRun));
});
runShown.catch((error) => {
  document.getElementById("timeline-said").textContent = `The timeline cannot be drawn: ${error.message ?? error}`;
  throw error;
});
