"""Names of windows that stay when other windows appear."""

import pytest

from evaluation_pipelines_tests.builders import (
    api_request,
    doff,
    don,
    prompt,
    tool,
)
from evaluation_pipelines_tests.sql.session_queries import (
    attributions,
    only_window,
    windows,
)


@pytest.mark.parametrize(
    ("masque", "slug"),
    [
        ("Code Reviewer", "code-reviewer"),
        ("--Löwe #1!--", "löwe-1"),
        ("Überprüfer: #1", "überprüfer-1"),
        ("Кодер", "кодер"),
        ("コード職人", "コード職人"),
        ("समीक्षक", "समीक्षक"),
        ("審査員", "審査員"),
        ("🎭", "masque"),
        ("", "masque"),
        ("baseline", "baseline"),
    ],
)
def test_the_masque_is_in_the_key_as_a_slug(masque: str, slug: str) -> None:
    window = only_window([don(masque, 0), tool(1)])

    assert (window["session_key"], window["masque"]) == (f"s1#{slug}-1", masque)


def test_two_masques_with_one_slug_are_told_apart_by_number() -> None:
    rows = [don("a b", 0), tool(1), don("A-B", 2), tool(3), don("a b", 4), tool(5)]

    assert [(key, row["masque"]) for key, row in windows(rows).items()] == [
        ("s1#a-b-1", "a b"),
        ("s1#a-b-2", "A-B"),
        ("s1#a-b-3", "a b"),
    ]
    assert set(attributions(rows).values()) == {"mixed"}


def test_a_masque_called_baseline_and_the_baseline_are_told_apart_by_number() -> None:
    rows = [prompt(0), don("baseline", 1), tool(2)]

    assert attributions(rows) == {"s1#baseline-1": "remainder", "s1#baseline-2": "clean"}


@pytest.mark.parametrize("masque", ["A", "B", "baseline"])
def test_a_later_masque_changes_no_earlier_key_and_no_earlier_content(masque: str) -> None:
    earlier = [
        prompt(0),
        don("A", 1),
        tool(2),
        doff(3),
        prompt(4),
        don("B", 5),
        tool(6),
        api_request(7),
    ]
    later = [don(masque, 8), prompt(9), tool(10)]
    before = {key: row["content_hash"] for key, row in windows(earlier).items()}

    after = {key: row["content_hash"] for key, row in windows(earlier + later).items()}

    assert len(before) == 4
    assert len(after) == 5
    assert before.items() <= after.items()
