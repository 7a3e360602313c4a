"""``sessions --by``: the figures of each group, and whom they may be of."""

from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.cli.session_groups import group_figures
from evaluation_pipelines_tests.cli.test_filters import built
from evaluation_pipelines_tests.program import Program


def row(name: str | None, day: int, **figures: float | None) -> dict[str, object]:
    usual: dict[str, float | None] = {
        "score": 50.0,
        "cost_usd": 1.0,
        "total_tools": 4,
        "tools_failed": 1,
    }
    return {"team": name, "session_date": date(2026, 6, day), **usual, **figures}


def test_figures_are_of_the_span_and_the_change_is_since_as_many_days_before() -> None:
    rows = pl.DataFrame(
        [
            row("a", 4, score=90),  # seven days before the 11th to the 17th: the 4th to the 10th
            row("a", 10, score=70),
            row("a", 3, score=10),
            row("a", 11, score=60, cost_usd=None),
            row("a", 17, score=40, cost_usd=2.5, tools_failed=3),
            row("b", 2),
            row("c", 12, score=None, cost_usd=None, total_tools=0, tools_failed=0),
            row(None, 12),
        ]
    )
    found = group_figures(rows, "team", (date(2026, 6, 11), date(2026, 6, 17))).sort("name")
    assert found.rows() == [
        (None, 1, 50.0, 1, None, None, 1.0, 1, 0.25, date(2026, 6, 12)),  # without a team
        # (60 + 40) / 2 against (90 + 70) / 2; (1 + 3) / (4 + 4) calls
        ("a", 2, 50.0, 2, 80.0, -30.0, 2.5, 1, 0.5, date(2026, 6, 17)),
        ("b", 0, None, 0, None, None, None, 0, None, date(2026, 6, 2)),
        ("c", 1, None, 0, None, None, None, 0, None, date(2026, 6, 12)),
    ]


def test_people_are_compared_only_where_they_are_shown(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(program)
    refused = program("sessions", "--by", "person")
    assert (refused.code, "EVAL_PEOPLE_VIEW=team" in refused.err) == (2, True)
    team, without = program("sessions", "--by", "team", "--format", "json").items()
    assert (without["name"], without["sessions"]) == (None, 1)
    assert "-: sessions without a team" in program("sessions", "--by", "team").out
    listed = program("sessions", "--team", "search", "--format", "json").items()
    assert team["score"] == listed[0]["effective_100"]  # the one that counts, as in the list
    assert (team["name"], team["sessions"], team["last_date"]) == ("search", 1, "2026-06-01")
    monkeypatch.setenv("EVAL_PEOPLE_VIEW", "person")
    people = program(
        "sessions", "--by", "person", "--sort", "last_date", "--format", "json"
    ).items()
    assert [(person["name"], person["last_date"]) for person in people] == [
        ("ada@x", "2026-06-01"),
        ("ben@x", "2026-06-02"),
    ]
    shown = program("sessions", "--by", "person", "--date", "2026-06-02", "--limit", "1").out
    assert "Sessions by person, 2026-06-02 to 2026-06-02" in shown
    monkeypatch.setenv("EVAL_PEOPLE_VIEW", "off")
    assert program("sessions", "--by", "team").code == 2
