// Show the tooltip of a cell while the pointer or the focus is on it. Open the details that a link leads to.
const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
tip.setAttribute("aria-hidden", "true"); // screen readers get the text from aria-describedby
document.body.append(tip);

function show(event) {
  const cell = event.target.closest?.("[aria-describedby]");
  if (event.pointerType === "touch" || tip.contains(event.target)) return;
  tip.hidden = !cell;
  if (!cell) return;
  tip.textContent = byId(cell.getAttribute("aria-describedby")).textContent;
  const box = cell.getBoundingClientRect(), below = box.bottom + tip.offsetHeight + 8 < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${below ? box.bottom + 4 : box.top - tip.offsetHeight - 4}px`;
}

function reveal() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  for (let around = target?.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
  target?.scrollIntoView();
}

for (const name of ["pointerover", "focusin"]) document.addEventListener(name, show);
for (const name of ["scroll", "focusout"]) document.addEventListener(name, () => { tip.hidden = true; }, true);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
addEventListener("hashchange", reveal);
if (location.hash) reveal();

// Fade out a table at its right edge if it continues there, as a hint that it can be scrolled.
function fade(box) {
  box.classList.toggle("beyond", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
}

for (const box of document.querySelectorAll(".scroll")) {
  box.addEventListener("scroll", () => fade(box));
  new ResizeObserver(() => fade(box)).observe(box);
}
