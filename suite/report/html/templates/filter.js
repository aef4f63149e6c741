"use strict";
// Hides everything that is about another framework, model or device than the chosen ones.
const form = document.getElementById("filter");
const rows = document.querySelectorAll("[data-counted] tbody tr");

function apply() {
  const tagged = document.querySelectorAll("[data-framework], [data-model], [data-device]");
  const chosen = [...new FormData(form)].filter(([, value]) => value);
  for (const element of tagged) {
    const other = ([name, value]) => name in element.dataset && element.dataset[name] !== value;
    element.classList.toggle("out", chosen.some(other));
  }
  const shown = [...rows].filter((row) => !row.closest(".out")).length;
  const count = rows.length ? `${shown} of ${rows.length} rows` : ""; // a page without rates has none
  document.getElementById("shown").textContent = count;
}

form.hidden = false;
form.addEventListener("change", apply);
apply();
