for (const each of document.querySelectorAll("[data-submits]")) {
  each.addEventListener("change", () => each.form.requestSubmit());
}
const waiting = document.querySelector("[data-reload-after]");
if (waiting) setTimeout(() => location.reload(), Number(waiting.dataset.reloadAfter));
