"""Filters: the same days on all pages, and every filter that is applied is shown."""

import html
import re
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines_tests.workplace import NOW


def test_all_pages_have_the_same_days(reader: TestClient) -> None:
    found = [
        re.findall(r'<nav class="days-links" aria-label="Days"><strong>([^<]+)</strong>', page)
        for page in (reader.get(path).text for path in ("/models", "/trends", "/tools"))
    ]
    (days,) = {tuple(row) for row in found}
    last = NOW.date() - timedelta(days=1)
    assert days == (f"{last - timedelta(days=27)} to {last}, 28 days",)


def test_days_are_chosen_by_a_link_that_keeps_the_filters(reader: TestClient) -> None:
    page = reader.get("/trends?by=label").text
    (url,) = re.findall(r'<a href="([^"]+)">all days</a>', page)
    chosen = reader.get(url.replace("&amp;", "&")).text
    assert "<strong>2026-06-01 to " in chosen
    assert 'aria-current="true">all days</a>' in chosen
    assert "<option selected>label</option>" in chosen


def test_the_first_characters_of_a_session_id_open_its_page(reader: TestClient) -> None:
    key = reader.get("/sessions.csv").text.splitlines()[1].split(",")[2]
    beginning = key.removesuffix(key.rpartition("-")[2])
    found = reader.get("/sessions", params={"session": beginning}, follow_redirects=False)
    assert found.status_code == 303
    assert key in html.unescape(reader.get(found.headers["location"]).text)
    assert reader.get("/sessions?session=nosuch").status_code == 404


def selected(page: str) -> dict[str, str]:
    """Return what is chosen in the selects of a page, by their names."""
    found = re.findall(r'<select (?:id="\w+" )?name="(\w+)"[^>]*>(.*?)</select>', page, re.DOTALL)
    chosen = {name: re.search(r"<option([^>]*) selected>", options) for name, options in found}
    return {
        name: re.sub(r'.*value="([^"]*)".*', r"\1", option[1])
        for name, option in chosen.items()
        if option
    }


@pytest.mark.parametrize("path", ["/trends", "/tools", "/sessions"])
def test_every_filter_that_is_applied_is_shown_removed_and_sent_again(
    reader: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    lines = "evaluation_pipelines.service.pages.domain.session_lines"
    monkeypatch.setattr(f"{lines}._MOST_CHOICES", 0)  # as if all were beyond the first 300
    fields = {"model": "model-a", "label": "simple", "team": "gone", "status": "completed"}
    page = reader.get(path, params=fields).text
    assert {name: selected(page).get(name) for name in fields} == fields
    assert '<details class="filters"><summary>Filter</summary>' in page  # closed: a click away
    removals, clear_url = applied(page)
    assert list(removals) == [f"{name.capitalize()}: {value}" for name, value in fields.items()]
    for name, url in zip(fields, removals.values(), strict=True):
        kept = {field: value for field, value in fields.items() if field != name}
        found = selected(reader.get(url).text)
        assert {row: found.get(row) for row in kept} == kept
        assert not found.get(name)
    assert applied(reader.get(clear_url).text) == ({}, "")


def applied(page: str) -> tuple[dict[str, str], str]:
    """Return the URLs without each applied filter, by its text, and the one without any."""
    _, _, rest = page.partition('<nav class="applied" aria-label="Applied filters">')
    shown, _, _ = rest.partition("</nav>")
    links = re.findall(r'href="([^"]+)"[^>]*>([^<]+?) ?<', html.unescape(shown))
    urls = {text: url for url, text in links}
    return urls, urls.pop("Clear all", "")


def test_the_sessions_name_what_only_they_filter_by_and_keep_their_order(
    reader: TestClient,
) -> None:
    url = "/sessions?from=2026-06-01&score=red&judge=unscored&source=judge&sort=cost"
    page = reader.get(url).text
    removals, clear_url = applied(page)
    texts = ("From: 2026-06-01", "Source: judge", "Score: 0-49", "Judge: Not judged")
    assert tuple(removals) == texts
    assert removals["Score: 0-49"] == url.replace("&score=red", "")
    assert clear_url == "/sessions?sort=cost"
    assert applied(reader.get("/trends?score=red").text) == ({}, "")  # which it does not apply


def test_a_filter_of_the_url_is_shown_as_text(reader: TestClient) -> None:
    page = reader.get("/sessions", params={"label": '"><b>bold'}).text
    assert "Label: &#34;&gt;&lt;b&gt;bold" in page
    assert "<b>bold" not in page
