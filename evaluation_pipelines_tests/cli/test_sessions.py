"""``sessions`` of the lake as table, JSON and CSV, and ``--by``: the figures of each group."""

import csv
from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.cli.session_groups import group_figures, scaled
from evaluation_pipelines.judge_changes.domain.judges import Turn
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines_tests.cli.test_filters import built
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S, claude, line


def test_sessions_lists_the_newest_of_the_lake_oldest_first(built_days: Program) -> None:
    rows = built_days("sessions").table()
    # Quality, autonomy 1 / 1 * 2, productivity 1 / 1 * 10 = 10; no tokens, no cost:
    # (0.30 * 10 + 0.25 * 2 + 0.20 * 10) / 0.75 = 5.5 / 0.75 = 7.33
    # What counts is the scorecard: 0.5 * 73.3 + 0.5 * 100 of tool effectiveness.
    assert [row[:12] for row in rows[:3]] == [
        [
            *(f"s{day}#baseline-1", "86.7", "green", "claude-code", "-", "Not", "judged", "7.3"),
            *("claude_code", f"2026-06-0{day + 1}", "12:00", "1"),
        ]
        for day in range(3)
    ]
    some = built_days("sessions", "--limit", "1")
    assert "s2#baseline-1" in some.out
    assert " judge: these sessions are not judged. " in some.out
    assert some.out.endswith("2 older sessions not shown: use --limit or --date\n")
    assert "s1#baseline-1" not in some.out


def test_sessions_of_some_dates(built_days: Program) -> None:
    rows = built_days("sessions", "--date", "2026-06-02..2099-01-01").table()
    assert [row[0] for row in rows] == ["s1#baseline-1", "s2#baseline-1"]
    none = built_days("sessions", "--date", "2026-05-01")
    lake = built_days.folder / "data" / "lake"
    assert (none.code, none.out) == (0, f"No sessions in {lake} on these dates.\n")


def test_dates_are_those_of_the_first_ingested_events_and_the_help_says_so(
    program: Program,
) -> None:
    """The tool call of June 2 comes first, the prompt of June 1 that began the session later."""
    program.land("a.jsonl", line(claude("tool_result", DAY_S, tool_name="Read", success="true")))
    program("ingest")
    program.land("b.jsonl", line(claude("user_prompt", 0)))
    program("ingest")
    program("build")
    (row,) = program("sessions", "--date", "2026-06-02").table()
    assert "2026-06-01" in row  # its start
    assert "No sessions in" in program("sessions", "--date", "2026-06-01").out
    for command in (["sessions"], ["judge", "run"], ["reputation", "update"]):
        shown = " ".join(program(*command, "--help").out.replace("│", " ").split())
        assert "by the session's first ingested event" in shown


@pytest.mark.parametrize("form", ["json", "csv"])
def test_no_sessions_are_an_empty_list_with_a_remark_on_standard_error(
    program: Program, form: str
) -> None:
    ran = program("sessions", "--format", form)
    assert ran.code == 0
    assert (ran.items() if form == "json" else list(csv.DictReader([ran.out]))) == []
    assert ran.err.startswith(f"No sessions in {program.folder}/data/lake yet. ")
    assert list(program.folder.iterdir()) == []


def row(name: str | None, day: int, **figures: float | None) -> dict[str, object]:
    usual: dict[str, float | None] = {
        "score": 50.0,
        "cost_usd": 1.0,
        "total_tools": 4,
        "tools_failed": 1,
    }
    known = {"team": name, "session_date": date(2026, 6, day)}
    return {**known, "profile_id": "default", "effective_source": "judge", **usual, **figures}


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


@pytest.mark.parametrize(
    ("changed_on", "shift", "change"),
    [
        (11, None, None),  # the first day of the span: the judge of the days before is another
        (5, None, None),  # the second of the seven days before
        (4, None, -20.0),  # their first day: one judge scored all
        (18, None, -20.0),  # after the span
        (11, 3.0, -20.0),  # earlier scores are adjusted
    ],
)
def test_a_judge_change_that_cuts_the_trend_leaves_no_change(
    changed_on: int, shift: float | None, change: float | None
) -> None:
    scored: dict[str, dict[str, object]] = {
        "a": {"profile_id": "default"},
        "b": {"profile_id": "other", "effective_source": "scorecard"},  # by a judge of its own
        "c": {"profile_id": None},  # the default judge scores what no profile matches
        "d": {"effective_source": "override"},
    }
    rows = pl.DataFrame(
        row(team, day, score=score) | about
        for team, about in scored.items()
        for day, score in ((4, 70.0), (17, 50.0))
    )
    turn = Turn(date(2026, 6, changed_on), "default", "judge-1", "judge-2", shift, None)
    found = group_figures(rows, "team", (date(2026, 6, 11), date(2026, 6, 17)), [turn])
    changes = found.sort("name").select("before", "change").rows()
    assert changes == [(70.0, change), (70.0, -20.0), (70.0, change), (70.0, -20.0)]


def test_sessions_before_the_days_that_are_compared_do_not_cut_the_trend() -> None:
    rows = pl.DataFrame(
        row("a", day, effective_100=score) | about | {"automatic_judge_model": model}
        for day, score, model, about in (
            (3, 10.0, "judge-1", {"effective_source": "scorecard"}),  # more than the judge score
            (4, 60.0, "judge-1", {}),
            (17, 70.0, "judge-2", {}),
        )
    ).drop("score")
    change = {"change_id": "1", "changed_on": date(2026, 6, 11), "judge_profile_id": "default",
              "former_model": "judge-1", "new_model": "judge-2", "trend": "bridged",
              "judges_part": 4.0}  # fmt: skip
    changes = pl.DataFrame([change], JUDGE_CHANGES.schema)
    found, (turn,) = scaled(rows, (date(2026, 6, 11), date(2026, 6, 17)), changes)
    assert (found["score"].to_list(), turn.shift) == ([10.0, 64.0, 70.0], 4.0)


def test_people_are_compared_only_where_they_are_shown(program: Program) -> None:
    built(program)
    refused = program("sessions", "--by", "person")
    assert (refused.code, "EVAL_PEOPLE_VIEW=team" in refused.err) == (2, True)
    team, without = program("sessions", "--by", "team", "--format", "json").items()
    assert (without["name"], without["sessions"]) == (None, 1)
    assert "-: sessions without a team" in program("sessions", "--by", "team").out
    listed = program("sessions", "--team", "search", "--format", "json").items()
    assert team["score"] == listed[0]["effective_100"]  # the one that counts, as in the list
    assert (team["name"], team["sessions"], team["last_date"]) == ("search", 1, "2026-06-01")
    program.set("EVAL_PEOPLE_VIEW", "person")
    people = program(
        "sessions", "--by", "person", "--sort", "last_date", "--format", "json"
    ).items()
    assert [(person["name"], person["last_date"]) for person in people] == [
        ("ada@x", "2026-06-01"),
        ("ben@x", "2026-06-02"),
    ]
    shown = program("sessions", "--by", "person", "--date", "2026-06-02", "--limit", "1").out
    assert "Sessions by person, 2026-06-02 to 2026-06-02" in shown
    program.set("EVAL_PEOPLE_VIEW", "off")
    assert program("sessions", "--by", "team").code == 2
