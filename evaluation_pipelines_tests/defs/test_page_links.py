"""Dagster's interface leads to the pages of a day."""

from datetime import date

import pytest

from evaluation_pipelines.defs.metadata import page_link
from evaluation_pipelines.schemas import AGENT_SESSIONS, EVALUATION_BOOKS, TOOL_REPORTS, Table
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.workplace import Workplace

JUNE_1 = date(2026, 6, 1)


def settings(url: str) -> Settings:
    return Settings(_env_file=None, service_url=url)


@pytest.mark.parametrize(
    ("table", "path"),
    [
        (AGENT_SESSIONS, "/sessions?from=2026-06-01&to=2026-06-01"),
        (TOOL_REPORTS, "/tools?from=2026-06-01&to=2026-06-01"),
        (EVALUATION_BOOKS, "/operations/books/2026-06-01"),
    ],
)
def test_a_partition_leads_to_the_page_of_its_day(table: Table, path: str) -> None:
    link = page_link(settings("https://pages.example/eval/"), table, JUNE_1)
    assert link["page"].value == f"https://pages.example/eval{path}"


def test_nothing_is_linked_to_without_an_address(workplace: Workplace) -> None:
    assert page_link(workplace.settings, AGENT_SESSIONS, JUNE_1) == {}


@pytest.mark.parametrize(
    "url",
    ["pages.example", "javascript://x/%0aalert(1)", "http://a:b@pages.example", "http://x?y=1"],
)
def test_only_plain_addresses_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="must"):
        settings(url)
