"""The pages in a real browser: Debian's chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, sync_playwright

from evaluation_pipelines.service.pages.judge import before_and_after
from evaluation_pipelines_tests.accessibility import axe_script, serious_obstacles
from evaluation_pipelines_tests.judge_changes.change_builders import simulated
from evaluation_pipelines_tests.service.live_service import server_in_thread
from evaluation_pipelines_tests.service.pages.hostile import (
    KEY,
    ORGANIZATION,
    correct,
    hostile_service,
    payload,
    score,
)
from evaluation_pipelines_tests.service.scoring_service import ScoringService

CHROMIUM = shutil.which("chromium")
SESSION = f"/sessions/{quote(KEY, safe='')}"
DAYS = "from=2026-06-01&to=2026-06-02"
PAGES = (
    *(
        "/",
        "/sessions",
        f"/models?{DAYS}",
        "/agents",
        f"/agents/{quote(payload('agent'), safe='')}",
    ),
    *(f"/trends?{DAYS}&by=model", f"/tools?{DAYS}", "/operations/books/2026-06-01?state=scored"),
    *(SESSION, f"{SESSION}/technical", f"{SESSION}/score"),
    *("/operations/quarantine", "/operations/judge", "/operations/doctor"),
)

EMPTY = """
    [...document.querySelectorAll("main :is(p, h2, li, th, dt, dd, figcaption, span.small)")]
        .filter(each => !each.textContent.trim() && !each.querySelector("svg, img, input, select"))
        .filter(each => each.getAttribute("role") !== "status").map(each => each.outerHTML)
"""

CUT = """found => found.filter(each => getComputedStyle(each).overflowX !== "visible")
    .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"""

A4: ViewportSize = {"width": 718, "height": 1047}
"""A sheet of paper without its margins, in pixels of 1/96 inch."""

WIDER_THAN_THE_WINDOW = """
    document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.querySelectorAll("main *")].filter(each => !each.closest(".scroll"))
        .filter(each => each.getBoundingClientRect().right > innerWidth)
        .map(each => each.outerHTML.slice(0, 80))
"""

OUT_OF_REACH = """
    [...document.querySelectorAll("a[href], button, input, select, textarea, summary, .scroll")]
        .filter(each => each.tabIndex < 0).map(each => each.outerHTML.slice(0, 80))
"""

OVERLAPPING = """(() => {
    const words = [...document.querySelectorAll("figure text")]
        .filter(each => getComputedStyle(each).display !== "none");
    const box = each => each.getBoundingClientRect();
    return words.flatMap((one, place) => words.slice(place + 1)
        .filter(each => box(one).right > box(each).left && box(each).right > box(one).left
            && box(one).bottom - 2 > box(each).top && box(each).bottom - 2 > box(one).top)
        .map(each => [one.textContent, each.textContent]));
})()"""

CONTRAST_OF_PRINT = """(() => {
    const style = getComputedStyle(document.body), light = text => {
        const [r, g, b] = text.match(/\\d+/g).map(each => each / 255)
            .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    return light(style.backgroundColor) / light(style.color);
})()"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoringService]:
    """A service with a hostile session whose first scoring has failed; a person scored it."""
    with hostile_service(tmp_path_factory.mktemp("browser")) as service:
        score(service, 1)
        correct(service)
        yield service


@pytest.fixture(scope="module")
def address(service: ScoringService) -> Iterator[str]:
    """Its address."""
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


def check_print(page: Page) -> None:
    """Check that a page fits on paper, dark on light, without what only a screen needs."""
    page.emulate_media(media="print")
    before = page.viewport_size
    page.set_viewport_size(A4)
    assert page.evaluate(WIDER_THAN_THE_WINDOW) == []
    assert not page.locator("header.top, form").filter(visible=True).count()
    assert page.evaluate(CONTRAST_OF_PRINT) > 7
    page.emulate_media(media="screen")
    assert before
    page.set_viewport_size(before)


@pytest.mark.parametrize("path", [*PAGES, "/reviews"])
def test_no_page_obeys_hostile_text_or_is_wider_than_a_phone(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_selector("body:not(:has([data-reload-after]))")  # until models are compared
    for row in page.locator("details").all():
        row.evaluate("details => details.open = true")
    assert page.evaluate("window.obeyed") is None
    assert page.evaluate(WIDER_THAN_THE_WINDOW) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400  # of texts, too
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"
    assert page.evaluate(EMPTY) == []
    check_print(page)


def test_the_page_of_the_api_fits_a_phone_and_looks_like_the_others(page: Page) -> None:
    page.goto("/api")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"
    assert "``" not in page.locator("main").inner_text()


def test_the_picture_of_a_judge_change_fits_a_phone_and_can_be_read(page: Page) -> None:
    page.goto("/operations/judge")
    section = f"<details class=bridge open><figure>{before_and_after(simulated(4.0, 8.0))}"
    page.evaluate("html => document.querySelector('main').innerHTML = html", section)
    figure, words = page.locator("figure"), page.locator("figure text").filter(visible=True)
    assert figure.evaluate("figure => figure.scrollWidth <= figure.clientWidth")
    boxes = [row.bounding_box() for row in words.all()]
    assert min(box["height"] for box in boxes if box) > 11
    assert page.evaluate(OVERLAPPING) == []


def test_the_list_of_sessions_fits_a_phone_and_a_small_laptop(page: Page) -> None:
    page.goto("/sessions")
    assert page.locator("td[data-name='Score']").evaluate_all(CUT) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/sessions")
    (too_wide,) = page.eval_on_selector_all(
        ".scroll", "found => found.map(each => each.scrollWidth - each.clientWidth)"
    )
    assert too_wide == 0
    assert page.locator("td.time").evaluate_all(CUT) == []


def test_a_click_scores_the_session_and_every_window_sees_it(page: Page) -> None:
    page.goto(f"{SESSION}/score")
    assert page.get_by_text("no verdict").is_visible()
    assert (
        page.locator(".verdicts .score.red[title=red]").last.inner_text() == "failed"
    )  # as in the list
    other = page.context.new_page()
    other.goto(page.url)
    page.get_by_role("button", name="Judge again").click()
    for window in (page, other):
        window.locator(".total").get_by_text("64").wait_for(timeout=20_000)
        assert window.evaluate("window.obeyed") is None
    page.goto("/sessions")
    page.locator("td[data-name='Score']").filter(has_text="judge 64").get_by_role("link").click()
    assert page.get_by_role("heading", name="Judge score").is_visible()


def test_a_second_click_during_a_scoring_does_not_score_again(
    browser: Browser, address: str, service: ScoringService
) -> None:
    context = browser.new_context(base_url=address)
    first, second = context.new_page(), context.new_page()
    first.goto("/sessions/s2%23baseline-1/score")
    first.get_by_role("button", name="Judge session").click()
    first.locator("#score .total").wait_for()
    second.goto(first.url)
    service.judge.may_answer.clear()
    try:
        for window in (first, second):
            window.get_by_role("button", name="Judge again").click()
        second.get_by_role("alert").wait_for()  # it is being scored
    finally:
        service.judge.may_answer.set()
    second.locator("#score .total").wait_for()
    second.wait_for_timeout(500)  # in which a form that is sent again would be accepted
    context.close()
    assert len(service.scores.by_session(ORGANIZATION, "s2#baseline-1")) == 2


def test_a_new_score_leaves_what_is_being_typed(page: Page) -> None:
    page.goto("/sessions/s3%23baseline-1/score")
    page.get_by_label("Reason").fill("The plan was")
    page.get_by_role("heading", name="Judge score").click()  # it has the focus no longer
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Judge session").click()
    other.locator("#score .total").wait_for()
    again = page.get_by_role("link", name="New score: reload")
    again.wait_for()
    assert page.get_by_label("Reason").input_value() == "The plan was"
    again.click()
    page.locator("#score .total").wait_for()


def test_a_page_that_waits_leaves_what_is_being_typed(page: Page) -> None:
    def waits(route: Route) -> None:
        answer = route.fetch()
        again = '<p id="waits" data-reload-after="60000">It is compared.</p><h1>'
        route.fulfill(response=answer, body=answer.text().replace("<h1>", again))

    page.clock.install()
    page.route("**/sessions?model=none", waits)
    page.goto("/sessions?model=none")
    words, again = page.get_by_label("Text in a prompt"), page.locator("#waits a")
    page.locator("details.filters summary").click()
    words.fill("leak")
    for _ in range(2):
        page.clock.fast_forward(60_000)
    assert words.input_value() == "leak"
    assert again.all_inner_texts() == ["Reload"]
    page.unroute("**/sessions?model=none")
    words.fill("")
    page.get_by_role("heading", name="Sessions", exact=True).click()
    page.clock.fast_forward(60_000)
    page.wait_for_selector("body:not(:has(#waits))")


@pytest.mark.parametrize("path", PAGES)
def test_the_keyboard_reaches_the_content_first_and_then_all_of_it(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_selector("body:not(:has([data-reload-after]))")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert page.evaluate(OUT_OF_REACH) == []


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
            page.wait_for_selector("body:not(:has([data-reload-after]))")
            page.evaluate(axe)
            result = page.evaluate("axe.run()")
            assert serious_obstacles(result) == [], (scheme, path)
        context.close()
