"""Searching in prompts: which windows are listed, and what a file must not leave out."""

import html
import re
from collections.abc import Iterator

import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

SAID = "Find the leak"


def asks(session: str, second: float, prompt: str, masque: str | None = None) -> bytes:
    worn = {} if masque is None else {"masque__name": masque}
    return line(claude("user_prompt", second, session__id=session, prompt=prompt), **worn)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A session with three windows, two of them asked for the same; and one a day later."""
    with open_workplace(tmp_path_factory.mktemp("search")) as workplace:
        fill(
            workplace,
            asks("s1", 0, SAID, "Scout"),
            asks("s1", 60, "Repair it", "Codesmith"),
            asks("s1", 120, f"{SAID} again", "Scout"),
            asks("s2", DAY_S, "find the leak"),
        )
        yield Service(workplace).client()


def listed(client: TestClient, query: str) -> list[str]:
    """Return the windows that the pages and the file list, which are the same."""
    pages = list(pages_of(client, f"/sessions?{query}"))
    file = pl.read_csv(client.get(f"/sessions.csv?{query}").content, infer_schema=False)
    assert [key for page in pages for key in page] == file["session_key"].to_list()
    return file["session_key"].to_list()


def pages_of(client: TestClient, url: str) -> Iterator[list[str]]:
    """Return the windows of each page: where a search was cut, a link goes on with it."""
    while url:
        page = client.get(url).text
        yield re.findall(r'<td class="time"><a href="/sessions/([^"?]+)', page.replace("%23", "#"))
        further = re.search(r'<a href="([^"]+)">Keep searching</a>', page)
        url = html.unescape(further[1]) if further else ""


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_only_the_windows_of_a_session_that_were_asked_so_are_listed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.pages.session_list._SEARCH_SECONDS", seconds)
    assert listed(client, "q=find+the+leak") == ["s2#baseline-1", "s1#scout-2", "s1#scout-1"]
    assert listed(client, "q=repair") == ["s1#codesmith-1"]
    assert listed(client, "q=find+the+leak&agent=Codesmith") == []


def test_a_search_without_time_goes_on_a_day_with_each_page(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.pages.session_list._SEARCH_SECONDS", 0.0)
    newest, oldest = ["s2#baseline-1"], ["s1#scout-2", "s1#scout-1"]
    assert list(pages_of(client, "/sessions?q=find+the+leak")) == [newest, oldest]
    assert list(pages_of(client, "/sessions?q=repair")) == [[], ["s1#codesmith-1"]]


def test_a_file_without_all_days_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.pages.session_list._DOWNLOAD_SECONDS", 0.0)
    answer = client.get("/sessions.csv?q=leak")
    assert answer.status_code == 503
    error = answer.json()["error"]
    assert "The prompts of 3 of these sessions, of 2026-06-01 to 2026-06-01" in error["message"]
    assert "Choose fewer days" in error["help"]
    of_a_day = client.get("/sessions.csv?q=leak&from=2026-06-02&to=2026-06-02")
    assert (of_a_day.status_code, of_a_day.text.count("s2#")) == (200, 1)
