// The report's own run.

showRun(JSON.parse(document.getElementById("run-data").textContent));
