// Reviews by keyboard, without loading style sheet and scripts again for each session.
const content = document.querySelector("main");
let isSending = false;

const showKeys = () => {
  for (const element of content.querySelectorAll("[data-needs-script]")) element.hidden = false;
};

const show = (text, url) => {
  const page = new DOMParser().parseFromString(text, "text/html");
  const first = page.querySelector("[autofocus]");
  first?.removeAttribute("autofocus"); // browsers obey it when a page loads, and this is none
  content.replaceChildren(...page.querySelector("main").childNodes);
  document.title = page.title;
  history.pushState({}, "", url);
  showKeys();
  first?.focus({ preventScroll: true }); // on a phone the transcript comes before the field
  first?.select?.(); // what was typed wrong is replaced by typing
  scrollTo(0, 0);
};

content.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (!("review" in form.dataset) || form.dataset.isPlain) return;
  event.preventDefault();
  if (isSending) return; // a key that is held down answers once
  isSending = true;
  try {
    const body = new URLSearchParams(new FormData(form, submitter));
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    show(await answer.text(), answer.url);
  } catch {
    form.dataset.isPlain = "yes"; // the browser says what is wrong
    form.requestSubmit(submitter);
  } finally {
    isSending = false;
  }
});

// Keys belong to one element: whoever dictates or types elsewhere triggers none.
content.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") content.querySelector("[data-keys]")?.focus();
  if (!("keys" in event.target.dataset)) return;
  const meant = [...content.querySelectorAll("[data-key]")].find((button) => button.dataset.key === event.key);
  if (!meant) return;
  event.preventDefault();
  if (meant.matches("button")) meant.click();
  else meant.focus();
});

addEventListener("popstate", () => location.reload());
showKeys();
