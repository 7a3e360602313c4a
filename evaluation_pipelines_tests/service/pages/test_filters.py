"""Filters: the same days on all pages, and every filter that is applied is shown."""

import re
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines_tests.workplace import NOW


def test_all_pages_have_the_same_days(reader: TestClient) -> None:
    found = [
        re.findall(r'<nav class="days-links" aria-label="Days"><strong>([^<]+)</strong>', page)
        for page in (reader.get(each).text for each in ("/models", "/trends", "/tools"))
    ]
    (days,) = {tuple(each) for each in found}
    last = NOW.date() - timedelta(days=1)
    assert days == (f"{last - timedelta(days=27)} to {last}, 28 days",)


def test_days_are_chosen_by_a_link_that_keeps_the_filters(reader: TestClient) -> None:
    page = reader.get("/trends?by=label").text
    (url,) = re.findall(r'<a href="([^"]+)">all days</a>', page)
    chosen = reader.get(url.replace("&amp;", "&")).text
    assert "<strong>2026-06-01 to " in chosen
    assert 'aria-current="true">all days</a>' in chosen
    assert "<option selected>label</option>" in chosen


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
def test_every_filter_that_is_applied_is_shown_and_sent_again(
    reader: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    lines = "evaluation_pipelines.service.pages.domain.session_lines"
    monkeypatch.setattr(f"{lines}._MOST_CHOICES", 0)  # as if all were beyond the first 300
    fields = {"model": "model-a", "label": "simple", "status": "completed", "team": "gone"}
    page = reader.get(path, params=fields).text
    assert {name: selected(page).get(name) for name in fields} == fields
    assert '<details class="filters" open>' in page
    assert '<details class="filters"><summary>' in reader.get(path).text
