"""The digest of a week: changes of the same people, verdicts, sums, losses."""

from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.reporting.domain.digest import (
    Digest,
    beyond_chance,
    changed_verdicts,
    most_lost,
    shifts,
    summary,
)


def week(*rows: tuple[str | None, str, float | None], cost: float | None = 1.0) -> pl.DataFrame:
    """Sessions of (person, model, score)."""
    schema = {"person_id": pl.String, "model": pl.String, "effective_100": pl.Float64}
    frame = pl.DataFrame(list(rows), schema, orient="row")
    return frame.with_columns(
        classification_label=pl.lit(None, pl.String),
        agent_id=pl.lit(None, pl.String),
        cost_usd=pl.lit(cost, pl.Float64),
    )


BEFORE = week(("a", "m", 80), ("b", "m", 70), ("c", "m", 90), ("c", "m", 70), ("d", "n", 50))


def test_a_change_is_that_of_the_same_people_and_each_counts_once() -> None:
    # a: 80 to 70, b: 70 to 62, c: mean 80 to 68: differences -10, -8, -12; their mean is -10, its
    # standard error 2 / sqrt(3), and the 97.5 % quantile of t with 2 degrees of freedom 4.3027.
    now = week(("a", "m", 70), ("b", "m", 62), ("c", "m", 68), ("e", "m", 0), (None, "m", 0))
    (found,) = shifts(now, BEFORE)
    assert (found.by, found.name, found.people) == ("model", "m", 3)
    assert found.before == pytest.approx(230 / 3)
    assert found.after == pytest.approx(200 / 3)
    half = 4.302653 * 2 / 3**0.5
    assert (found.low, found.high) == pytest.approx((-10 - half, -10 + half), abs=1e-4)
    assert found.is_beyond_chance
    assert beyond_chance([found]) == ([], [f"{found}"])
    assert f"{found}" == "model m: -10.0 points (-15.0 to -5.0), now 66.7; 3 people"


def test_changes_that_may_be_chance_and_too_few_people_are_not_named() -> None:
    now = week(("a", "m", 90), ("b", "m", 60), ("c", "m", 81), ("d", "n", 90))
    (found,) = shifts(now, BEFORE)  # n has one person
    assert not found.is_beyond_chance
    assert beyond_chance([found]) == ([], [])
    better = shifts(week(("a", "m", 91), ("b", "m", 80), ("c", "m", 90)), BEFORE)
    assert beyond_chance(better) == ([f"{better[0]}"], [])


def pair(one: str, other: str, verdict: str) -> dict[str, str]:
    return {"label": "code", "model_a": one, "model_b": other, "verdict": verdict}


def test_a_verdict_changes_with_its_winner_whatever_the_order_of_the_pair() -> None:
    before = [
        pair("x", "y", "not_decided"),
        pair("x", "z", "a_better"),
        pair("v", "w", "b_better"),
        pair("s", "t", "a_better"),
    ]
    now = [
        pair("y", "x", "a_better"),
        pair("z", "x", "too_few"),
        pair("w", "v", "a_better"),
        pair("s", "t", "b_better"),
        pair("new", "x", "a_better"),
    ]
    assert changed_verdicts(now, before) == [
        "code: x and y: y is better now",
        "code: x and z: not decided any more (before: x)",
        "code: s and t: t is better now (before: s)",
    ]


def test_the_summary_says_what_is_unknown() -> None:
    nothing = week()
    now = pl.concat([week(("a", "m", 61)), week(("a", "m", None), cost=None)])
    assert summary(now, nothing) == [
        "2 sessions (the week before 0)",
        "mean score 61.0 of 100 (before -), of 1 scored sessions",
        "cost $1.00, unknown for 1 (before -)",
    ]


def test_tools_without_a_lost_call_are_left_out() -> None:
    columns = ("tool", "calls", "lost_calls", "lost_pct", "lost_usd")
    rows = [("Bash", 40, 10.5, 26.25, 1.5), ("Read", 9, 0.0, 0.0, 0.0)]
    lost = pl.DataFrame(rows, columns, orient="row")
    assert most_lost(lost) == ["Bash: 10.5 of 40 calls (26 %), tokens for $1.50"]


def test_an_empty_section_says_so() -> None:
    digest = Digest(date(2026, 6, 1), date(2026, 6, 7), ["s"], [], [], [], [], ["l"], [])
    assert digest.text() == (
        "Agent sessions from 2026-06-01 to 2026-06-07\n\nIn short\n- s\n\nBetter\n"
        "- Nothing beyond chance.\n\nWorse\n- Nothing beyond chance.\n\nVerdicts that changed\n"
        "- None.\n\nMost calls lost\n- None.\n\nLeft out\n- l\n"
    )
