for (const field of document.querySelectorAll("[data-submits]")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}
const isChanged = (field) => {
  if (field.matches("select")) {
    const given = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
    return field.selectedOptions[0] !== given;
  }
  return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
};
// To load a page again discards what is being typed or chosen on it: then a link does it.
const isBeingFilledIn = () =>
  [...document.querySelectorAll("input, select, textarea")].some(
    (field) => field === document.activeElement || isChanged(field),
  );
const linkTo = (url, text) => Object.assign(document.createElement("a"), { href: url, textContent: text });
const here = () => location.pathname + location.search; // a link with a fragment would load nothing
const waiting = document.querySelector("[data-reload-after]");
if (waiting) {
  const again = linkTo(here(), "Reload");
  const reload = () => {
    if (!isBeingFilledIn()) {
      location.reload();
      return;
    }
    if (!again.isConnected) waiting.append(" ", again);
    setTimeout(reload, Number(waiting.dataset.reloadAfter));
  };
  setTimeout(reload, Number(waiting.dataset.reloadAfter));
}
// A session being scored: shows progress, and the score when it is there.
const live = document.querySelector("[data-live]");
if (live) {
  const says = {
    "scoring.started": "The judge has started ...",
    analyzing_methodology: "The judge is reading the session ...",
    identifying_missing_tools: "The judge is looking for missing tools ...",
  };
  const status = live.querySelector("[role=status]");
  let after = live.dataset.after;
  // To reload the answer to a form would send the form again, and have the session scored again.
  const showScore = () => {
    if (isBeingFilledIn()) status.replaceChildren(linkTo(live.dataset.page ?? here(), "New score: reload"));
    else if ("page" in live.dataset) location.replace(live.dataset.page);
    else location.reload();
  };
  const listen = () => {
    const url = new URL("/api/v1/events", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.search = new URLSearchParams({ channel: `session:${live.dataset.live}`, after });
    const socket = new WebSocket(url);
    socket.addEventListener("message", ({ data }) => {
      const event = JSON.parse(data);
      if (event.organization_id !== live.dataset.organization) return;
      after = event.event_id;
      if (["scoring.completed", "scoring.failed"].includes(event.type)) showScore();
      else if (event.type === "scoring.deferred") status.textContent = `Postponed: ${event.error_message}`;
      else status.textContent = says[event.phase] ?? says[event.type] ?? "";
    });
    socket.addEventListener("close", () => setTimeout(listen, 3000));
  };
  listen();
}
