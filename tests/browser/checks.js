// Run inside a page of the book: what a reader would call broken, as a list of sentences.
() => {
  const problems = [];
  const article = document.querySelector("article");

  // Figures: drawn as wide as their place, with traces that take room and with text that can be read on what is behind it.
  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const [red, green, blue, alpha = 1] = colour(getComputedStyle(e).backgroundColor);
      if (alpha > 0.5) return [red, green, blue];
    }
    return [255, 255, 255];
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  for (const figure of document.querySelectorAll("figure.plotly-figure")) {
    const plot = figure.querySelector(".plot");
    const name = plot.getAttribute("aria-label");
    if (!name) problems.push("a figure has no text alternative");
    const marks = plot.querySelectorAll("svg.main-svg :is(g.trace, .hm, .slice, .contour), canvas");
    const drawn = [...marks].some((mark) => {
      const { width, height } = mark.getBoundingClientRect();
      return width > 0 && height > 0;
    });
    if (!drawn) problems.push(`figure not drawn: ${name}`);
    const width = plot.querySelector("svg.main-svg")?.getBoundingClientRect().width;
    if (Math.abs(width - plot.clientWidth) > 2) problems.push(`figure does not fit its place: ${name}`);
    for (const text of plot.querySelectorAll(".xtick text, .ytick text, .legendtext, .gtitle, .xtitle, .ytitle")) {
      if (contrast(colour(getComputedStyle(text).fill), ground(plot)) < 4.5) {
        problems.push(`text hard to read in the figure: ${name}: ${text.textContent}`);
        break;
      }
    }
  }

  // Maths: every formula is MathML that takes room, and no TeX is left in it or in the text.
  for (const maths of article.querySelectorAll(".math")) {
    if (!maths.querySelector("math > *")) problems.push(`maths not typeset: ${maths.textContent}`);
    if (maths.textContent.includes("\\")) problems.push(`maths not understood: ${maths.textContent}`);
  }
  const prose = article.cloneNode(true);
  prose.querySelectorAll("pre, code, script, style, math, .plot").forEach((element) => element.remove());
  const raw = prose.textContent.match(/\$[^\s$][^$\n]*\$|\\[([]|\{\{/);
  if (raw) problems.push(`raw TeX or substitution in the text: ${raw[0]}`);

  if (document.documentElement.scrollWidth > innerWidth) problems.push("the page scrolls sideways");
  return problems;
};
