// Draws each figure again by Vega when it comes into view, so that its marks show their values.
// `vegaEmbed` is bundled before this text. Expressions are interpreted (`ast`), because the policy
// of the page forbids to make code of text.
const config = JSON.parse(document.getElementById("config").textContent);
const tip = document.getElementById("tip");

function rounded(value) {
  return typeof value === "number" ? Number(value.toPrecision(5)).toLocaleString("en") : value;
}

function showTip(handler, event, item, value) {
  tip.hidden = !value;
  if (!value) return;
  const hidden = /^(mark|text|label|framework)$|_sort_index$/;
  const shown = Object.entries(value).filter(([name]) => !hidden.test(name));
  const lines = shown.map(([name, each]) => `${name}: ${rounded(each)}`);
  tip.textContent = [value.label, ...lines].filter(Boolean).join("\n");
  tip.style.left = `${Math.min(event.pageX + 12, window.innerWidth - tip.offsetWidth - 12)}px`;
  tip.style.top = `${event.pageY + 12}px`;
}

async function draw(figure) {
  const frame = figure.querySelector(".scroll");
  const still = frame.querySelector("svg");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const place = document.createElement("div");
  const options = { ast: true, actions: false, defaultStyle: false, renderer: "svg" };
  await vegaEmbed(place, spec, { ...options, config, tooltip: showTip });
  const live = place.querySelector("svg");
  for (const name of ["role", "aria-label", "width", "height"]) {
    live.setAttribute(name, still.getAttribute(name));
  }
  for (const mark of live.querySelectorAll('[aria-label^="framework="]')) {
    mark.dataset.framework = mark.getAttribute("aria-label").split("=")[1];
    for (const name of ["aria-label", "role", "aria-roledescription"]) mark.removeAttribute(name);
  }
  still.replaceWith(place);
  figure.dataset.live = "";
  document.getElementById("filter").dispatchEvent(new Event("change"));
}

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    observer.unobserve(target);
    draw(target);
  }
});
document.querySelectorAll("figure").forEach((figure) => observer.observe(figure));
