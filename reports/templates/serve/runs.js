// Submit the filter as soon as a choice changes. Leave out empty fields, which keeps the address short enough to share.
const form = document.getElementById("filter");
if (form) {
  form.addEventListener("change", () => form.requestSubmit());
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}

// Replace the list when the server says that it has changed. Without events the page stays as it was loaded.
const list = document.getElementById("list"), conclusion = document.getElementById("list-conclusion"), live = document.getElementById("list-live");

async function reloadList() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  conclusion.textContent = page.getElementById("list-conclusion")?.textContent ?? "";
  const fresh = page.getElementById("list");
  if (!fresh || fresh.innerHTML === list.innerHTML) return;
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  list.innerHTML = fresh.innerHTML;
  if (focused) [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

if (list && live) {
  const events = new EventSource("/events");
  events.addEventListener("runs", async (event) => {
    const { running } = JSON.parse(event.data);
    try {
      await reloadList();
    } catch {
      return;  // the server has gone; the next event comes when it is back
    }
    live.textContent = running ? `Updates by itself: ${running} in progress` : "Updates by itself";
  });
  events.addEventListener("error", () => { live.textContent = "No updates: no connection to the server"; });
}
