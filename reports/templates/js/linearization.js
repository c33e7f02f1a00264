// Tooltip of the call under the pointer or the focus; arrow keys move from call to call.

const across = document.getElementById("across"), tip = document.getElementById("tip");
const calls = [...document.querySelectorAll("#calls > .call")];

function show(target) {
  const said = target?.getAttribute("aria-label") ?? target?.dataset.said;
  tip.hidden = !said;
  if (!said) return;
  tip.replaceChildren(...said.split("\n").map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  const around = tip.parentElement.getBoundingClientRect(), box = target.getBoundingClientRect();
  const left = Math.max(box.left, across.getBoundingClientRect().left) - around.left;
  tip.style.left = Math.max(4, Math.min(left, around.width - tip.offsetWidth - 4)) + "px";
  const below = box.bottom - around.top + 8, above = box.top - around.top - tip.offsetHeight - 8;
  tip.style.top = (below + tip.offsetHeight > around.height && above > 0 ? above : below) + "px";
}

function near(node) {
  return node.closest?.("#calls > .call, [data-said]");
}

function go(event) {
  const at = calls.indexOf(document.activeElement);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: calls.length - 1 }[event.key];
  if (event.key === "Escape") tip.hidden = true;
  if (at < 0 || !calls[to] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  calls[at].tabIndex = -1;
  calls[to].tabIndex = 0;
  calls[to].focus({ preventScroll: true });
  calls[to].scrollIntoView({ block: "nearest", inline: "nearest" });
}

across.addEventListener("pointerover", (event) => show(near(event.target)));
across.addEventListener("pointerleave", () => show(near(document.activeElement)));
across.addEventListener("focusin", (event) => show(near(event.target)));
across.addEventListener("focusout", () => show(null));
across.addEventListener("scroll", () => show(near(document.activeElement)));
across.addEventListener("keydown", go);
// Scroll to the point where the order ends.
if ("stuck" in across.dataset) across.scrollLeft = across.dataset.stuck - across.clientWidth * 0.8;
