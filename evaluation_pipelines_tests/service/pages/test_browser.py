"""The pages in a real browser: Debian's chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from evaluation_pipelines_tests.accessibility import axe_script, serious_obstacles
from evaluation_pipelines_tests.service.live_service import server_in_thread
from evaluation_pipelines_tests.service.pages.hostile import KEY, hostile_service, score

CHROMIUM = shutil.which("chromium")
SESSION = f"/sessions/{quote(KEY, safe='')}"
PAGES = ("/", "/sessions", "/tools", "/books", SESSION, f"{SESSION}/technical", f"{SESSION}/score")

WIDER_THAN_THE_WINDOW = """
    document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.querySelectorAll("main *")].filter(each => !each.closest(".scroll"))
        .filter(each => each.getBoundingClientRect().right > innerWidth)
        .map(each => each.outerHTML.slice(0, 80))
"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a hostile session whose first scoring has failed."""
    with hostile_service(tmp_path_factory.mktemp("browser")) as service:
        score(service, 1)
        with server_in_thread(service.app) as port:
            yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    """The browser; it runs an event loop in this thread, so that ``address`` must be first."""
    assert address
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A dark phone of 400 pixels that notes what it complains of."""
    context = browser.new_context(
        base_url=address, color_scheme="dark", viewport={"width": 400, "height": 800}
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request", lambda sent: None if sent.url.startswith(address) else faults.append(sent.url)
    )
    yield page
    context.close()
    assert faults == []


def test_no_page_obeys_hostile_text_or_is_wider_than_a_phone(page: Page) -> None:
    for path in PAGES:
        page.goto(path)
        for each in page.locator("details").all():
            each.evaluate("details => details.open = true")
        assert page.evaluate("window.obeyed") is None
        assert page.evaluate(WIDER_THAN_THE_WINDOW) == [], path
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"


def test_a_click_scores_the_session_and_every_window_sees_it(page: Page) -> None:
    page.goto(f"{SESSION}/score")
    assert page.get_by_text("no verdict").is_visible()
    other = page.context.new_page()
    other.goto(page.url)
    page.get_by_role("button", name="Score again").click()
    for window in (page, other):
        window.locator(".total").get_by_text("64").wait_for(timeout=20_000)
        assert window.evaluate("window.obeyed") is None
    page.goto("/sessions")
    page.get_by_role("link", name="64 yellow").click()
    assert page.get_by_role("heading", name="Score of the judge").is_visible()


def test_the_keyboard_reaches_the_content_first(page: Page) -> None:
    page.goto("/sessions")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


@pytest.mark.slow
def test_no_serious_obstacle_for_people_who_cannot_see(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    axe = axe_script(tmp_path)
    for scheme in ("light", "dark"):
        context = browser.new_context(base_url=address, color_scheme=scheme)
        page = context.new_page()
        for path in PAGES:
            page.goto(path)
            page.evaluate(axe)
            result = page.evaluate("axe.run()")
            assert serious_obstacles(result) == [], (scheme, path)
        context.close()
