for (const each of document.querySelectorAll("[data-submits]")) {
  each.addEventListener("change", () => each.form.requestSubmit());
}
