// What scrolls inside the page can be scrolled from the keyboard too, once it is wider than its place.

const WIDE = "pre, .lens, .math, .pst-scrollable-table-container, .dt-layout-table, .text_html";

function makeFocusable() {
  for (const element of document.querySelectorAll(`article :is(${WIDE})`)) {
    const scrolls = element.scrollWidth > element.clientWidth && getComputedStyle(element).overflowX !== "visible";
    if (scrolls && element.tabIndex < 0) element.tabIndex = 0; // the theme takes what a fold hid for narrow
  }
}

new ResizeObserver(makeFocusable).observe(document.querySelector("article"));
