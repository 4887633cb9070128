// Draws the page's Plotly figures, follows the page's theme, and gives frames controls of the browser's own.

const NOW = { mode: "immediate", frame: { duration: 0, redraw: true }, transition: { duration: 0 } };

// The house template with the page's text and line colours in place of its neutral greys.
function themed(template) {
  const style = getComputedStyle(document.documentElement);
  const text = style.getPropertyValue("--pst-color-text-base").trim();
  const line = style.getPropertyValue("--pst-color-border").trim();
  const copy = structuredClone(template);
  Object.assign(copy.layout.font, { color: text, family: getComputedStyle(document.body).fontFamily });
  for (const axis of [copy.layout.xaxis, copy.layout.yaxis]) {
    Object.assign(axis, { gridcolor: line, zerolinecolor: line, tickcolor: line, linecolor: text });
  }
  copy.data = { ...copy.data, bar: [{ cliponaxis: false }] }; // a bar's number may stand in the margin
  return copy;
}

// On several lines where a telephone has no room for it on one.
function wrapped(text, characters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line && line.length + word.length >= characters) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines.join("<br>");
}

function wrapTitles(layout, data, width, height) {
  const beside = data.some((trace) => trace.orientation === "h") ? 190 : 90; // names of bars
  for (const [name, part] of Object.entries(layout)) {
    if (!part?.title?.text) continue;
    const room = name.startsWith("yaxis") ? height - 90 : width - beside;
    part.title.text = wrapped(part.title.text, room / 7.5);
  }
}

function frameControls(plot, frames) {
  const controls = document.createElement("div");
  controls.className = "frames";
  controls.innerHTML =
    `<button type="button" aria-label="Previous step">&#x2039;</button>` +
    `<input type="range" aria-label="Step" min="0" max="${frames.length - 1}" value="0">` +
    `<button type="button" aria-label="Next step">&#x203a;</button>` +
    `<output aria-live="polite"></output>`;
  const [previous, next] = controls.querySelectorAll("button");
  const range = controls.querySelector("input");
  const name = controls.querySelector("output");
  function label() {
    const frame = frames[range.valueAsNumber];
    name.textContent = frame.name;
    range.setAttribute("aria-valuetext", frame.name);
    previous.disabled = range.valueAsNumber === 0;
    next.disabled = range.valueAsNumber === frames.length - 1;
  }
  function go(step) {
    range.value = step;
    label();
    Plotly.animate(plot, [frames[range.valueAsNumber].name], NOW);
  }
  range.addEventListener("input", () => go(range.valueAsNumber));
  previous.addEventListener("click", () => go(range.valueAsNumber - 1));
  next.addEventListener("click", () => go(range.valueAsNumber + 1));
  label();
  return controls;
}

async function draw(figure) {
  const plot = figure.querySelector(".plot");
  const { data, layout, frames, config } = JSON.parse(figure.querySelector("script").textContent);
  const { template, sliders, updatemenus, ...rest } = layout; // JupyterLab's controls; the page has its own
  plot.textContent = "";
  const height = layout.height ?? template.layout.height;
  plot.style.height = `${height}px`;
  wrapTitles(rest, data, plot.clientWidth, height);
  const touch = matchMedia("(pointer: coarse)").matches; // a finger on a figure scrolls the page
  await Plotly.newPlot(plot, data, { ...rest, template: themed(template), ...(touch && { dragmode: false }) }, config);
  if (frames?.length > 1) {
    await Plotly.addFrames(plot, frames);
    figure.append(frameControls(plot, frames));
  }
  // A fold that opens and a sidebar that closes change the width too.
  new ResizeObserver(() => plot.offsetWidth && Plotly.Plots.resize(plot)).observe(plot);
  new MutationObserver(() => Plotly.relayout(plot, { template: themed(template) })).observe(document.documentElement, {
    attributeFilter: ["data-theme"],
  });
}

document.querySelectorAll("figure.plotly-figure").forEach(draw);
