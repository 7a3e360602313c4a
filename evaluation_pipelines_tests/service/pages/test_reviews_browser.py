"""Reviews in a real browser: by keyboard, with hostile texts, on a phone."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines_tests.accessibility import axe_script, serious_obstacles
from evaluation_pipelines_tests.judged import JUNE_1
from evaluation_pipelines_tests.service.live_service import server_in_thread
from evaluation_pipelines_tests.service.pages.hostile import (
    KEY,
    ORGANIZATION,
    SCRIPT,
    hostile_session,
    payload,
)
from evaluation_pipelines_tests.service.pages.test_browser import (
    CHROMIUM,
    WIDER_THAN_THE_WINDOW,
    check_print,
)
from evaluation_pipelines_tests.service.scoring_service import ScoringService, open_service
from evaluation_pipelines_tests.workplace import NOW

KEYS = (KEY, "s2#baseline-1")
PROFILE = f"""\
id: hostile
version: 1
name: {json.dumps(payload("name"))}
match_labels: ["*", {json.dumps(payload("label"))}]
method: heuristic
criteria:
  - {{id: tool_count}}
  - {{id: kindness, description: {json.dumps(payload("description"))}}}
"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoringService]:
    """Two hostile sessions wait for a review by a profile that is hostile, too."""
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "profiles").mkdir()
    (folder / "profiles/hostile.yaml").write_text(PROFILE)
    with open_service(folder, hostile_session(), hostile_session("s2")) as service:
        store = OverrideStore(service.workplace.ledger)
        given = ("hostile", "0", NOW, None, 1, payload("label"))
        store.add_samples([AuditSample(JUNE_1, ORGANIZATION, key, *given) for key in KEYS])
        yield service


@pytest.fixture(scope="module")
def address(service: ScoringService) -> Iterator[str]:
    with server_in_thread(service.app) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    """The browser; it runs an event loop in this thread, so that ``address`` must be first."""
    assert address
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=30_000)  # as other waits: machines are shared
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A dark phone that notes what it complains of, and every connection but those of forms."""
    context = browser.new_context(
        base_url=address, color_scheme="dark", viewport={"width": 400, "height": 800}
    )
    page, faults = context.new_page(), list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("websocket", lambda socket: faults.append(socket.url))
    page.on(
        "request", lambda sent: None if sent.url.startswith(address) else faults.append(sent.url)
    )
    yield page
    context.close()
    assert faults == []


def check_harmless(page: Page) -> None:
    assert page.evaluate("window.obeyed") is None
    assert page.evaluate(WIDER_THAN_THE_WINDOW) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"


def obstacles(page: Page, axe: str) -> list[tuple[str, str]]:
    page.evaluate(axe)
    return serious_obstacles(page.evaluate("axe.run()"))


def begin(page: Page, name: str) -> None:
    page.goto("/reviews")
    expect(page.locator("#reviewer")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator("#score")).to_be_focused()


def test_no_page_of_a_review_obeys_hostile_text_or_is_wider_than_a_phone(page: Page) -> None:
    reviewer = payload("reviewer")
    page.goto(f"/sessions/{quote(KEY, safe='')}")  # shows that it waits, and no more
    page.get_by_role("heading", name="Awaiting blind review").wait_for()
    check_harmless(page)
    begin(page, reviewer)
    check_harmless(page)
    for name in ("label", "name", "description", "prompt", "error", "reply"):
        assert f"{name}{SCRIPT}" in page.inner_text("main"), name
    page.reload()  # the same without the script's way to get here
    check_harmless(page)
    expect(page.locator("#score")).to_be_focused()
    check_print(page)
    page.locator("#score").focus()  # a form is not printed
    page.keyboard.type("high")
    page.get_by_role("button", name="Save").click()
    assert page.get_by_role("alert").inner_text().startswith("high is not a plain decimal number")
    page.keyboard.type("40")  # replaces what was wrong
    page.keyboard.press("Enter")
    page.fill("#reason", payload("why"))
    for name in ("agent", "model"):
        assert f"{name}{SCRIPT}" in page.inner_text("main"), name
    check_harmless(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.locator("#score")).to_be_focused()
    page.get_by_role("link", name="Reviews").last.click()
    assert "1 of 2 answered" in page.inner_text("main")
    check_print(page)
    page.get_by_role("link", name=KEY).click()
    assert page.input_value("#reason") == payload("why")
    check_harmless(page)
    check_print(page)
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Your answer was undone").wait_for()
    assert page.input_value("#reviewer") == reviewer
    check_harmless(page)


def test_a_review_needs_nothing_but_the_keyboard_and_one_page(
    page: Page, service: ScoringService
) -> None:
    page.goto("/reviews")
    page.evaluate("window.isSame = true")
    expect(page.locator("#reviewer")).to_be_focused()
    page.keyboard.type("Ada")
    page.keyboard.press("Enter")
    score, button = page.locator("#score"), page.get_by_role("button", name="Next")
    expect(score).to_be_focused()
    assert page.get_by_text("opens the transcript").is_visible()
    page.keyboard.press("t")
    expect(page.locator("#transcript")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("s")  # no key of the transcript
    page.keyboard.press("Escape")
    first = page.title()
    page.keyboard.press("s")
    page.wait_for_function("before => document.title !== before", arg=first)
    expect(score).to_be_focused()
    page.keyboard.type("70.5")
    page.keyboard.press("Enter")
    expect(button).to_be_focused()
    page.keyboard.press("r")
    page.keyboard.type("user is kind")  # keys of the button are letters here
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 2 answered, 1 skipped in your round").wait_for()
    assert page.evaluate("window.isSame")
    (row,) = OverrideStore(service.workplace.ledger).of_dates().filter(annotator="Ada").to_dicts()
    assert (row["override_score"], row["reason"], row["source"]) == (70.5, "user is kind", "audit")
    page.go_back()
    expect(button).to_be_visible()
    button.focus()
    page.keyboard.press("u")
    page.get_by_text("Your answer was undone").wait_for()
    assert OverrideStore(service.workplace.ledger).of_dates().filter(annotator="Ada").is_empty()


def test_a_review_works_without_scripts(browser: Browser, address: str) -> None:
    context = browser.new_context(base_url=address, java_script_enabled=False)
    page = context.new_page()
    begin(page, "Bo")
    assert not page.get_by_text("opens the transcript").is_visible()
    page.keyboard.type("40")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Reason for the automatic score").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Your answer was undone").wait_for()
    context.close()


@pytest.mark.slow
def test_no_serious_obstacle_in_a_review(browser: Browser, address: str, tmp_path: Path) -> None:
    axe = axe_script(tmp_path)
    for scheme in ("light", "dark"):
        context = browser.new_context(base_url=address, color_scheme=scheme)
        page = context.new_page()
        page.goto("/reviews")
        assert obstacles(page, axe) == []
        begin(page, f"Cy {scheme}")
        assert obstacles(page, axe) == []
        page.keyboard.type("40")
        page.keyboard.press("Enter")
        page.locator("#reason").wait_for()
        assert obstacles(page, axe) == []
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("Your answer was undone").wait_for()
        assert obstacles(page, axe) == []
        context.close()
