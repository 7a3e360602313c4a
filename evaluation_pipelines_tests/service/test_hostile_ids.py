"""Ids of telemetry may be anything: every link that a list shows opens."""

import re
from html import unescape
from urllib.parse import quote

import pytest

from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.world import session

HOSTILE = ("line\nfeed", "a/b", "a?b=c", "a#b", "100%", "../up", " blank ", "\u2028", "<b>&amp;")


@pytest.fixture
def hostile(service: Service) -> Service:
    lines = [session(name, number * 60, agent__id=name) for number, name in enumerate(HOSTILE)]
    fill(service.workplace, *lines)
    return service


def test_every_link_of_the_list_opens(hostile: Service) -> None:
    client = hostile.browser()
    links = {unescape(url) for url in re.findall(r'href="([^"]+)"', client.get("/sessions").text)}
    listed = {url for url in links if url.startswith("/sessions/")}

    assert len(listed) >= len(HOSTILE)
    assert {url: code for url in links if (code := client.get(url).status_code) >= 400} == {}


def test_every_session_that_the_api_lists_has_its_path(hostile: Service) -> None:
    client = hostile.client()
    keys = [row["session_key"] for row in client.get("/api/v1/sessions").json()["sessions"]]
    paths = [f"/api/v1/sessions/{quote(key, safe='')}" for key in keys]

    assert len(keys) == len(HOSTILE)
    assert {path: code for path in paths if (code := client.get(path).status_code) != 200} == {}
