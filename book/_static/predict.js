// Opening a choice shows the answer: the output of the cells tagged `answer` that follow the choices.

let choices;
for (const element of document.querySelectorAll(".choices, .cell.tag_answer")) {
  if (element.matches(".choices")) {
    choices = element;
    continue;
  }
  const output = element.querySelector("details.hide.below-input");
  if (!choices || !output) continue;
  const place = document.createElement("p");
  place.className = "waiting";
  place.setAttribute("role", "status"); // so that a screen reader says that the output has come
  place.textContent = "The output appears once you choose.";
  output.hidden = true;
  output.before(place);
  const show = () => {
    if (!output.hidden) return;
    place.className = "visually-hidden";
    place.textContent = "The output is shown.";
    output.hidden = false;
    output.open = true;
    output.classList.add("shown");
  };
  for (const choice of choices.querySelectorAll("details.choice")) choice.addEventListener("toggle", show);
}
