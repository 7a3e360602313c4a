"""The rules of a date: what keeps them, what breaks them, and what a breach looks like."""

from collections.abc import Iterable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
)
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult, keys_are_unique
from evaluation_pipelines.sessions.domain.checks import (
    calls_add_up,
    every_event_is_in_a_session,
    every_report_has_its_session,
    every_score_has_its_session,
    scores_are_in_range,
    sequences_have_no_gaps,
)
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines_tests.world.rows import (
    Row,
    don,
    events_frame,
    prompt,
    session,
    sessions_frame,
    tool,
)

DIMENSIONS = ("quality", "composite")


def sessions(*names: str) -> pl.DataFrame:
    """One baseline window for each name."""
    return sessions_frame(
        session(session_id=name, session_key=f"{name}#baseline-1") for name in names
    )


def scores(*names: str) -> pl.DataFrame:
    """The scores of such windows."""
    return score_sessions(sessions(*names)).select(SESSION_PERFORMANCE.schema.names())


def rated(*values: float | None) -> pl.DataFrame:
    """Scores of which only the quality is chosen, one row for each value."""
    frame = scores(*(f"s{n}" for n in range(len(values))))
    return frame.with_columns(quality=pl.Series(values, dtype=pl.Float64))


def reports(*names: str, calls: int = 10) -> pl.DataFrame:
    """Reports of windows as ``sessions`` makes them: ten calls of which one failed."""
    return sessions(*names).select(
        *TOOL_REPORTS.key,
        "content_hash",
        total_calls=pl.lit(calls, pl.Int64),
        failed_calls="tools_failed",
        denied_calls=pl.lit(0, pl.Int64),
        unknown_calls=pl.lit(0, pl.Int64),
    )


def counted(*names: str) -> pl.DataFrame:
    """Such windows, of which nothing was refused and all outcomes are known."""
    return sessions(*names).with_columns(pl.lit(0).alias("tools_denied"), tools_unknown=pl.lit(0))


def unique(rows: pl.DataFrame) -> CheckResult:
    return keys_are_unique(rows, AGENT_SESSIONS)


def in_range(*values: float | None) -> CheckResult:
    return scores_are_in_range(rated(*values), SESSION_PERFORMANCE, DIMENSIONS)


def paired(scored: str, there: str) -> CheckResult:
    return every_score_has_its_session(scores(*scored), sessions(*there), SESSION_PERFORMANCE)


def in_a_session(rows: Iterable[Row], there: str) -> CheckResult:
    return every_event_is_in_a_session(events_frame(rows), sessions(*there), AGENT_SESSIONS)


def gaps(names: str, *missing: int | None) -> CheckResult:
    column = pl.Series(missing, dtype=pl.Int64)
    return sequences_have_no_gaps(
        sessions(*names).with_columns(missing_events=column), AGENT_SESSIONS
    )


def reported(told: pl.DataFrame, windows: pl.DataFrame) -> CheckResult:
    return every_report_has_its_session(told, windows, TOOL_REPORTS)


def added(told: pl.DataFrame, windows: pl.DataFrame) -> CheckResult:
    return calls_add_up(told, windows, TOOL_REPORTS)


FIFTY = [f"s{n:02}" for n in range(50)]
BINARY = prompt(0, event_id=bytes(range(16)))
OTHER = sessions("a").with_columns(content_hash=pl.lit("1"))
NO_CALLS = counted("a").with_columns(total_tools=pl.lit(0), tools_failed=pl.lit(0))
ERROR, WARNING = "error", "warning"


@pytest.mark.parametrize(
    ("result", "broken", "found", "examples", "expected"),
    [
        (unique(sessions("a", "b")), None, "0 keys that several rows share", [],
         "one row per organization_id, session_key"),
        (unique(sessions(*"bacbab")), ERROR, "2 keys that several rows share",
         ["default, a#baseline-1, 2", "default, b#baseline-1, 3"], ""),
        (unique(sessions_frame([session(), session(organization_id="other")])), None, "", [], ""),
        (keys_are_unique(events_frame([BINARY, BINARY]), AGENT_EVENTS), ERROR, "",
         ["default, 000102030405060708090a0b0c0d0e0f, 2"], ""),
        # Of fifty keys five are shown.
        (unique(sessions(*FIFTY, *FIFTY)), ERROR, "50 keys that several rows share",
         [f"default, s0{n}#baseline-1, 2" for n in range(5)], ""),
        (in_range(0.0, 10.0, 3.3, None), None, "0 rows with a score outside", [],
         "every dimension and the composite null or from 0 to 10"),
        *(
            (in_range(5.0, value), ERROR, "1 rows with a score outside",
             [f"default, s1#baseline-1, {value}, {rated(5.0, value)['composite'][1]}"], "")
            for value in (-0.001, 10.001, float("nan"), float("inf"), float("-inf"))
        ),
        (paired("ab", "ba"), None, "0 scores without a session, 0 sessions without a score", [],
         "2 scores, one for each session window"),
        (paired("bzy", "bdc"), ERROR, "2 scores without a session, 2 sessions without a score",
         [f"default, {name}#baseline-1" for name in "yzcd"], ""),
        (paired("ab", "a"), ERROR, "1 scores without a session, 0 sessions without a score",
         ["default, b#baseline-1"], ""),
        (paired("a", "ab"), ERROR, "0 scores without a session, 1 sessions without a score",
         ["default, b#baseline-1"], ""),
        (in_a_session([prompt(0, session_id="a"), tool(1, session_id="a")], "a"), None, "", [],
         "windows of all 1 sessions that sent events"),
        (in_a_session((prompt(0, session_id=name) for name in "cab"), "a"), ERROR,
         "2 sessions without a window", ["default, b", "default, c"],
         "windows of all 3 sessions that sent events"),
        # A session is looked for in its own organization; a masque alone needs none.
        (in_a_session([prompt(0, session_id="a", organization_id="other")], "a"), ERROR,
         "1 sessions without a window", ["other, a"], ""),
        (in_a_session([don("critic", 0, session_id="unknown")], ""), None, "", [],
         "windows of all 0 sessions that sent events"),
        (gaps("ab", 0, None), None, "0 missing events in 0 session windows", [], ""),
        # 2 + 7 + 2 = 11, the largest first
        (gaps("dacb", 2, 0, 7, 2), WARNING, "11 missing events in 3 session windows",
         ["c#baseline-1, 7", "b#baseline-1, 2", "d#baseline-1, 2"], ""),
        (reported(reports("a"), sessions("a", "b")), None, "0 reports without one", [], ""),
        # Without its session, or of other content
        *(
            (reported(reports("a"), windows), ERROR, "1 reports without one",
             ["default, a#baseline-1, 0"], "")
            for windows in (sessions("b"), OTHER)
        ),
        (added(reports("a"), counted("a")), None, "", [],
         "10 calls with a known outcome, as in the sessions"),
        (added(reports("b"), counted("a", "b")), ERROR, "", ["default, a#baseline-1, 10, "], ""),
        (added(reports("a", "b", calls=9), counted("a", "b")), ERROR, "",
         ["default, a#baseline-1, 10, ", "default, b#baseline-1, 10, "], ""),
        (added(reports("a").clear(), NO_CALLS), None, "", [], ""),
    ],
)  # fmt: skip
def test_a_rule_is_kept_or_says_what_breaks_it(
    result: CheckResult, broken: str | None, found: str, examples: list[str], expected: str
) -> None:
    assert result.passed is (broken is None)
    assert broken is None or result.severity == broken
    assert found in ("", result.found)
    assert expected in ("", result.expected)
    assert len(result.examples) == len(examples) <= EXAMPLES == 5
    assert all(map(str.startswith, result.examples, examples))


@given(st.lists(st.sampled_from("abc"), max_size=8))
def test_keys_are_unique_exactly_when_a_set_of_them_is_as_large(names: list[str]) -> None:
    assert keys_are_unique(sessions(*names), AGENT_SESSIONS).passed == (
        len(set(names)) == len(names)
    )


def test_a_date_without_rows_breaks_no_rule() -> None:
    events, windows, cards = events_frame([]), sessions(), scores()
    results = [
        keys_are_unique(windows, AGENT_SESSIONS),
        every_event_is_in_a_session(events, windows, AGENT_SESSIONS),
        sequences_have_no_gaps(windows, AGENT_SESSIONS),
        scores_are_in_range(cards, SESSION_PERFORMANCE, DIMENSIONS),
        every_score_has_its_session(cards, windows, SESSION_PERFORMANCE),
    ]

    assert all(result.passed for result in results)
