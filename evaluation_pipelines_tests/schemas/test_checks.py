"""The rules of a date: what keeps them, what breaks them, and what a breach looks like."""

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
from evaluation_pipelines.schemas.table import EXAMPLES, keys_are_unique
from evaluation_pipelines.sessions.domain.checks import (
    calls_add_up,
    every_event_is_in_a_session,
    every_report_has_its_session,
    every_score_has_its_session,
    scores_are_in_range,
    sequences_have_no_gaps,
)
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines_tests.builders import (
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


def test_different_keys_are_unique() -> None:
    result = keys_are_unique(sessions("a", "b"), AGENT_SESSIONS)

    assert (result.table, result.rule) == ("agent_sessions", "keys_are_unique")
    assert (result.passed, result.severity, result.examples) == (True, "error", ())
    assert result.expected == "one row per organization_id, session_key"
    assert result.found == "0 keys that several rows share"


def test_a_key_that_rows_share_is_shown_with_how_many_they_are() -> None:
    result = keys_are_unique(sessions("b", "a", "c", "b", "a", "b"), AGENT_SESSIONS)

    assert not result.passed
    assert result.found == "2 keys that several rows share"
    assert result.examples == ("default, a#baseline-1, 2", "default, b#baseline-1, 3")


def test_the_same_session_of_two_organizations_is_two_keys() -> None:
    frame = sessions_frame([session(), session(organization_id="other")])

    assert keys_are_unique(frame, AGENT_SESSIONS).passed


def test_a_binary_key_is_shown_in_hexadecimal() -> None:
    row = prompt(0, event_id=bytes(range(16)))
    result = keys_are_unique(events_frame([row, row]), AGENT_EVENTS)

    assert result.examples == ("default, 000102030405060708090a0b0c0d0e0f, 2",)


def test_no_more_than_five_examples_are_shown_of_a_hundred() -> None:
    names = [f"s{n:02}" for n in range(50)]
    result = keys_are_unique(sessions(*names, *names), AGENT_SESSIONS)

    assert result.found == "50 keys that several rows share"
    assert len(result.examples) == EXAMPLES == 5
    assert result.examples[0] == "default, s00#baseline-1, 2"


@given(st.lists(st.sampled_from("abc"), max_size=8))
def test_keys_are_unique_exactly_when_a_set_of_them_is_as_large(names: list[str]) -> None:
    assert keys_are_unique(sessions(*names), AGENT_SESSIONS).passed == (
        len(set(names)) == len(names)
    )


def test_scores_from_0_to_10_and_unknown_ones_are_in_range() -> None:
    result = scores_are_in_range(rated(0.0, 10.0, 3.3, None), SESSION_PERFORMANCE, DIMENSIONS)

    assert result.passed
    assert result.expected == "every dimension and the composite null or from 0 to 10"
    assert result.found == "0 rows with a score outside"


@pytest.mark.parametrize(
    "value", [-0.001, 10.001, float("nan"), float("inf"), float("-inf")], ids=str
)
def test_a_score_outside_breaks_the_rule_and_its_row_is_shown(value: float) -> None:
    frame = rated(5.0, value)
    composite = frame["composite"][1]
    result = scores_are_in_range(frame, SESSION_PERFORMANCE, DIMENSIONS)

    assert not result.passed
    assert result.severity == "error"
    assert result.found == "1 rows with a score outside"
    assert result.examples == (f"default, s1#baseline-1, {value}, {composite}",)


def test_scores_and_sessions_of_the_same_keys_belong_together() -> None:
    result = every_score_has_its_session(scores("a", "b"), sessions("b", "a"), SESSION_PERFORMANCE)

    assert result.passed
    assert result.expected == "2 scores, one for each session window"
    assert result.found == "0 scores without a session, 0 sessions without a score"


def test_a_score_without_session_and_a_session_without_score_are_both_shown() -> None:
    result = every_score_has_its_session(
        scores("b", "z", "y"), sessions("b", "d", "c"), SESSION_PERFORMANCE
    )

    assert not result.passed
    assert result.found == "2 scores without a session, 2 sessions without a score"
    assert result.examples == tuple(f"default, {name}#baseline-1" for name in "yzcd")


def test_every_event_has_a_window_of_its_session() -> None:
    events = events_frame([prompt(0, session_id="a"), tool(1, session_id="a")])
    result = every_event_is_in_a_session(events, sessions("a"), AGENT_SESSIONS)

    assert result.passed
    assert result.expected == "windows of all 1 sessions that sent events"


def test_a_session_that_vanished_is_named() -> None:
    events = events_frame(prompt(0, session_id=name) for name in "cab")
    result = every_event_is_in_a_session(events, sessions("a"), AGENT_SESSIONS)

    assert not result.passed
    assert result.severity == "error"
    assert result.expected == "windows of all 3 sessions that sent events"
    assert result.found == "2 sessions without a window"
    assert result.examples == ("default, b", "default, c")


def test_a_session_is_looked_for_in_its_own_organization() -> None:
    events = events_frame([prompt(0, session_id="a", organization_id="other")])

    assert not every_event_is_in_a_session(events, sessions("a"), AGENT_SESSIONS).passed


def test_a_line_that_only_puts_a_masque_on_needs_no_window() -> None:
    events = events_frame([don("critic", 0, session_id="unknown")])
    result = every_event_is_in_a_session(events, sessions(), AGENT_SESSIONS)

    assert result.passed
    assert result.expected == "windows of all 0 sessions that sent events"


def test_sessions_without_gaps_or_without_numbers_break_nothing() -> None:
    frame = sessions("a", "b").with_columns(missing_events=pl.Series([0, None], dtype=pl.Int64))
    result = sequences_have_no_gaps(frame, AGENT_SESSIONS)

    assert result.passed
    assert result.found == "0 missing events in 0 session windows"


def test_gaps_are_a_warning_that_shows_the_largest_first() -> None:
    names = ("d", "a", "c", "b")
    gaps = pl.Series([2, 0, 7, 2], dtype=pl.Int64)
    frame = sessions(*names).with_columns(missing_events=gaps)
    result = sequences_have_no_gaps(frame, AGENT_SESSIONS)

    assert (result.passed, result.severity) == (False, "warning")
    # 2 + 7 + 2 = 11
    assert result.found == "11 missing events in 3 session windows"
    assert result.examples == ("c#baseline-1, 7", "b#baseline-1, 2", "d#baseline-1, 2")


def test_a_date_without_rows_breaks_no_rule() -> None:
    events, windows, cards = events_frame([]), sessions(), scores()
    results = [
        keys_are_unique(windows, AGENT_SESSIONS),
        every_event_is_in_a_session(events, windows, AGENT_SESSIONS),
        sequences_have_no_gaps(windows, AGENT_SESSIONS),
        scores_are_in_range(cards, SESSION_PERFORMANCE, DIMENSIONS),
        every_score_has_its_session(cards, windows, SESSION_PERFORMANCE),
    ]

    assert all(each.passed for each in results)


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


def test_reports_of_sessions_belong_to_them() -> None:
    result = every_report_has_its_session(reports("a"), sessions("a", "b"), TOOL_REPORTS)

    assert (result.passed, result.found) == (True, "0 reports without one")


def test_a_report_without_its_session_or_of_other_content_is_found() -> None:
    other = sessions("a").with_columns(content_hash=pl.lit("1"))

    for windows in (sessions("b"), other):
        result = every_report_has_its_session(reports("a"), windows, TOOL_REPORTS)
        assert (result.passed, result.severity) == (False, "error")
        assert result.examples == ("default, a#baseline-1, 0",)


def test_calls_add_up_where_reports_and_sessions_count_the_same() -> None:
    result = calls_add_up(reports("a"), counted("a"), TOOL_REPORTS)

    assert (result.passed, result.expected) == (
        True,
        "10 calls with a known outcome, as in the sessions",
    )


def test_a_missing_report_and_a_wrong_count_are_found() -> None:
    for told in (reports("b"), reports("a", "b", calls=9)):
        result = calls_add_up(told, counted("a", "b"), TOOL_REPORTS)
        assert not result.passed
        assert result.examples[0].startswith("default, a#baseline-1, 10, ")


def test_a_session_without_calls_needs_no_report() -> None:
    none = counted("a").with_columns(total_tools=pl.lit(0), tools_failed=pl.lit(0))

    assert calls_add_up(reports("a").clear(), none, TOOL_REPORTS).passed
