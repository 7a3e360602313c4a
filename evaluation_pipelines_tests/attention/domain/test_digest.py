"""The digest of a week: changes, verdicts, sums, losses."""

from dataclasses import replace
from datetime import UTC, date, datetime

import polars as pl
import pytest

from evaluation_pipelines.attention.domain.digest import (
    Digest,
    beyond_chance,
    changed_verdicts,
    most_lost,
    shift,
    summary,
    unlisted,
)
from evaluation_pipelines.attention.domain.items import Facts
from evaluation_pipelines.comparison.domain.before_after import (
    BeforeAfter,
    Side,
    State,
    difference_of,
)
from evaluation_pipelines.comparison.domain.differences import Difference
from evaluation_pipelines.numerics.estimates import t_quantile
from evaluation_pipelines_tests.attention.domain.test_items import REGRESSED


def week(*rows: tuple[str | None, str, float | None], cost: float | None = 1.0) -> pl.DataFrame:
    """Sessions of (person, model, score)."""
    schema = {"person_id": pl.String, "model": pl.String, "score": pl.Float64}
    frame = pl.DataFrame(list(rows), schema, orient="row")
    is_scored = pl.col("score").is_not_null()
    merged = pl.lit(None, pl.Boolean)
    return frame.with_columns(cost_usd=pl.lit(cost, pl.Float64), is_scored=is_scored, merged=merged)


LATE, EARLY = (date(2026, 6, 8), date(2026, 6, 14)), (date(2026, 6, 1), date(2026, 6, 7))


def change(state: State, value: float, half: float = 4.0) -> BeforeAfter:
    recent, before = Side(LATE, 30, 20, 9, 7), Side(EARLY, 30, 20, 9, 7)
    return BeforeAfter(state, recent, before, Difference(value, half / t_quantile(8), 8))


def test_a_change_is_the_one_that_the_page_of_the_agent_shows() -> None:
    found = change("worse", -14.3)
    told = shift("agent", ("Firefighter", "orchard"), found)
    assert told is not None
    assert (told.change, told.low, told.high) == pytest.approx((-14.3, -18.3, -10.3))
    assert f"{told}" == (
        "agent Firefighter of orchard: 14.3 points less (10.3 to 18.3) than from "
        "2026-06-01 to 2026-06-07, 9 people"
    )
    assert difference_of(found) in f"{told}"


def test_changes_that_may_be_chance_and_too_little_to_tell_are_not_named() -> None:
    states: dict[str, tuple[State, float]] = {
        "a": ("worse", -5.0),
        "b": ("worse", -9.0),
        "c": ("unclear", -3.0),
        "d": ("better", 6.0),
    }
    found = [shift("model", (name,), change(*value)) for name, value in states.items()]
    told = [line for line in found if line is not None]
    better, worse = beyond_chance(told, [])
    assert len(told) == 4
    assert [change.split(":")[0] for change in better] == ["model d"]
    assert [change.split(":")[0] for change in worse] == ["model b", "model a"]
    watched = [{"model": "a", "provider": "orchard"}]
    assert beyond_chance(told, watched) == (better, worse[:1])
    for state in ("indication", "unlike", "too few"):
        assert shift("model", ("m",), change(state, -20.0)) is None


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
        "code: x and z: no longer decided (before: x)",
        "code: s and t: t is better now (before: s)",
    ]


def test_what_got_worse_is_listed_once() -> None:
    listed = {**REGRESSED, "profile_id": "p", "profile_version": 2}
    others = (
        {"model": "gem"},
        {"provider": "other"},
        {"classification_label": "docs"},
        {"model_variant": "effort high"},
        {"profile_version": 3},
    )
    regressions = [listed, *({**listed, **other} for other in others)]
    rise_names = ("measure", "organization_id", "agent_id")
    rises = [
        dict(zip(rise_names, row, strict=True))
        for row in (("cost", "o", "a"), ("failed calls", "o", "a"), ("cost", "p", "a"))
    ]
    facts = Facts(datetime(2026, 6, 1, tzinfo=UTC), regressions=regressions, rises=rises)
    left = unlisted(facts, regressions[:1], rises[:1])
    assert (left.regressions, left.rises) == (regressions[1:], rises[1:])
    assert unlisted(replace(facts, regressions=None), regressions, ()).regressions is None


def test_the_summary_says_what_is_unknown() -> None:
    nothing = week()
    now = pl.concat([week(("a", "m", 61)), week(("a", "m", None), cost=None)])
    assert summary(now, nothing, 7) == [
        "2 sessions (0 in the 7 days before)",
        "mean score 61.0 of 100 (before -), of 1 scored sessions",
        "cost $1.00, unknown for 1 (before -)",
    ]
    _, mean, _ = summary(now, week(("a", "m", 70)), 7, has_one_scale=False)
    assert mean.startswith("mean score 61.0 of 100 (before 70.0, judge changed, not comparable), ")
    merged = [now.with_columns(merged=pl.lit(is_known)) for is_known in (True, False)]
    assert summary(pl.concat([now, *merged]), merged[1], 7)[3] == (
        "merged 2 of 4 sessions with a known result (before 0 of 2). Sessions that ended less than "
        "90 days ago may still be merged"
    )


def test_a_mean_names_the_sessions_that_are_in_it_and_those_that_are_not() -> None:
    withheld = week(("a", "m", None)).with_columns(is_scored=True)
    now = pl.concat([week(("a", "m", 60), ("b", "m", 70), ("b", "m", None)), withheld])
    _, mean, _ = summary(now, week(), 7)
    # (60 + 70) / 2; of four sessions three are scored, and one of these is withheld
    assert mean == (
        "mean score 65.0 of 100 (before -), of 2 of 3 scored sessions. Means and changes exclude "
        "the others (1), which await a blind review"
    )


def test_tools_without_a_lost_call_are_left_out() -> None:
    columns = ("tool", "calls", "lost_calls", "lost_pct", "lost_usd")
    rows = [("Bash", 40, 10.5, 26.25, 1.5), ("Read", 9, 0.0, 0.0, 0.0)]
    lost = pl.DataFrame(rows, columns, orient="row")
    assert most_lost(lost) == ["Bash: 10.5 of 40 calls (26%), tokens for $1.50"]


def test_an_empty_section_says_so() -> None:
    digest = Digest(date(2026, 6, 1), date(2026, 6, 7), ["s"], ["n"], [], [], [], [], ["l"], [])
    assert digest.text() == (
        "Agent sessions from 2026-06-01 to 2026-06-07\n\nSummary\n- s\n\n"
        "Needs attention\n- n\n\nBetter\n"
        "- Nothing beyond chance.\n\nWorse\n- Nothing beyond chance.\n\nChanged verdicts\n"
        "- None.\n\nMost lost calls\n- None.\n\nNot included\n- l\n"
    )
