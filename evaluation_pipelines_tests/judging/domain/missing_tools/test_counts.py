"""Counts of missing tools in a period, with results computed by hand."""

from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools.counts import (
    SCORE_COLUMNS,
    Period,
    count_missing_tools,
)
from evaluation_pipelines.schemas import JUDGE_SCORES, MISSING_TOOLS

JUNE_1 = date(2026, 6, 1)
PERIOD = Period(JUNE_1, date(2026, 6, 29))


def scoring(number: int, text: str | None, day: int = 1, **columns: Any) -> dict[str, Any]:
    """Return a completed scoring of session ``s<number>``, which began on ``day`` of June."""
    defaults = {
        "organization_id": "default",
        "session_key": f"s{number}#baseline-1",
        "judge_profile_id": "default",
        "session_date": date(2026, 6, day),
        "score_id": f"score {number}",
        "agent_model": "model-a",
        "judge_model": "judge-1",
        "status": "completed",
        "completed_at": datetime(2026, 6, day, 12, tzinfo=UTC),
        "missing_tools_analysis": text,
        "missing_tools_error": None if text else "the endpoint was down",
    }
    return defaults | columns


def scores(*rows: dict[str, Any]) -> pl.DataFrame:
    schema = {name: JUDGE_SCORES.schema[name] for name in SCORE_COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row")


def masques_of(**masques: str | None) -> pl.DataFrame:
    rows = [("default", f"{name}#baseline-1", masque) for name, masque in masques.items()]
    names = ["organization_id", "session_key", "masque"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def test_a_tool_counts_once_per_session() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. Grep: first\n2. make: a\n3. grep: again", 1),
            scoring(2, "1. **Grep**: second", 9, agent_model="model-b"),
            scoring(3, "None is missing.", 3),
            scoring(4, "It went well.", 4),
        ),
        masques_of(s1="Codesmith", s2=None, s3=None, s4=None),
        PERIOD,
    )
    grep, make = found.tools.rows(named=True)
    assert grep == {
        "organization_id": "default",
        "period_start": JUNE_1,
        "period_end": date(2026, 6, 29),
        "tool": "grep",
        "sessions": 2,
        # Sessions 1, 2 and 3: the answer for session 4 is unparsed.
        "asked_sessions": 3,
        "mentions": 3,
        "agent_models": ["model-a", "model-b"],
        "judge_models": ["judge-1"],
        "masques": ["Codesmith", "baseline"],
        "examples": [
            {"session_key": "s2#baseline-1", "rationale": "second"},
            {"session_key": "s1#baseline-1", "rationale": "first"},
        ],
        "first_date": JUNE_1,
        "last_date": date(2026, 6, 9),
        "priority": None,
        "priority_reason": None,
    }
    assert (make["tool"], make["sessions"], make["mentions"]) == ("make", 1, 1)
    assert found.lines() == [
        "named by judge-1",
        "2 lists of missing tools",
        "1 answers that none is missing",
        "1 answers that are no list, not counted",
        "1 unparsed: no list, and no plain word that none is missing",
    ]


def test_every_completed_scoring_of_the_period_is_counted_in_one_line() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. old: x", score_id="a"),
            scoring(1, "1. new: x", 2, session_date=JUNE_1, score_id="b"),
            scoring(1, "1. new: by another profile", judge_profile_id="other"),
            scoring(2, None),
            scoring(3, "1. Run the tests.\n2. make: x"),
            scoring(4, "1. open: x", status="failed"),
            scoring(5, "1. early: x", session_date=date(2026, 5, 31)),
            scoring(6, "1. late: x", session_date=date(2026, 6, 29)),
        ),
        masques_of(),
        PERIOD,
    )
    assert sum(found.answers.values()) == 5
    assert found.lines() == [
        "named by judge-1",
        "3 lists of missing tools",
        "1 scorings without an answer about tools",
        "1 older scorings of the same session and profile, not counted",
        "1 items of lists name no tool and are not counted",
    ]
    counted = found.tools.select("tool", "sessions", "mentions", "masques").rows()
    # Two profiles name the tool for one session; the masque of a deleted session is unknown.
    assert counted == [("make", 1, 1, []), ("new", 1, 2, [])]


def test_organizations_are_counted_separately() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. make: ours"),
            scoring(1, "1. make: theirs", organization_id="other"),
            scoring(2, "None.", organization_id="other"),
        ),
        masques_of(s1=None),
        PERIOD,
    )
    columns = ("organization_id", "sessions", "asked_sessions", "masques")
    assert found.tools.select(columns).rows() == [
        ("default", 1, 1, ["baseline"]),
        ("other", 1, 2, []),
    ]


def test_examples_are_few_short_and_on_one_line() -> None:
    long_rows = [scoring(n, f"1. make: {n}\x1b[31m\n{'y' * 300}", n) for n in range(1, 6)]
    (row,) = count_missing_tools(scores(*long_rows), masques_of(), PERIOD).tools.rows(named=True)
    assert [each["session_key"][:2] for each in row["examples"]] == ["s5", "s4", "s3"]
    assert row["examples"][0]["rationale"] == f"5 {'y' * 237}\u2026"


def test_examples_of_one_date_are_in_the_order_of_their_sessions() -> None:
    same_day = scores(*(scoring(n, "1. make: x") for n in (2, 1, 3)))
    (row,) = count_missing_tools(same_day, masques_of(), PERIOD).tools.rows(named=True)
    assert [each["session_key"][:2] for each in row["examples"]] == ["s1", "s2", "s3"]


def test_without_scorings_the_table_is_empty() -> None:
    found = count_missing_tools(scores(), masques_of(), PERIOD)
    assert found.tools.schema == MISSING_TOOLS.schema
    assert (found.tools.height, found.lines()) == (0, [])
    assert str(found.period) == "2026-06-01 until 2026-06-29"
