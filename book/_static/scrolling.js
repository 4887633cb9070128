// What scrolls inside the page can be scrolled from the keyboard too, once it is wider than its place, and has a sign of it:
// its edge fades where there is more.

const WIDE = "pre, .lens, .math, .pst-scrollable-table-container, .dt-layout-table, .text_html, figure";

function sign(element) {
  const left = element.scrollLeft;
  element.classList.toggle("more-left", left > 1);
  element.classList.toggle("more-right", element.scrollWidth - element.clientWidth - left > 1);
}

function look() {
  for (const element of document.querySelectorAll(`article :is(${WIDE})`)) {
    if (getComputedStyle(element).overflowX === "visible") continue;
    sign(element);
    // The theme takes what a fold hid for narrow.
    if (element.scrollWidth > element.clientWidth && element.tabIndex < 0) element.tabIndex = 0;
  }
}

new ResizeObserver(look).observe(document.querySelector("article"));
document.addEventListener("scroll", ({ target }) => target.matches?.(WIDE) && sign(target), { capture: true, passive: true });

// A drawing that is wider than its place begins where it has colour.
function begin(drawing) {
  const place = drawing.getBoundingClientRect();
  const shapes = [...drawing.querySelectorAll(".used, .wasted, .strong")].map((shape) => shape.getBoundingClientRect());
  if (!place.width || !shapes.length) return; // of a step that is not shown
  const at = (x) => x - place.left + drawing.scrollLeft;
  const left = at(Math.min(...shapes.map((shape) => shape.left)));
  const right = at(Math.max(...shapes.map((shape) => shape.right)));
  drawing.scrollLeft = Math.max(0, Math.min(left - 60, right + 24 - place.width));
}

for (const diagram of document.querySelectorAll("article .diagram")) {
  const drawings = diagram.querySelectorAll(".drawn");
  drawings.forEach(begin);
  diagram.addEventListener("change", () => drawings.forEach(begin));
}
