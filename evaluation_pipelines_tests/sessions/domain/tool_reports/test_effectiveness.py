"""The effectiveness score and losses, worked out by hand."""

from typing import Any

import pytest

from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    only_report,
    said,
)

GOOD = [call("Read", parameters={"file_path": name}) for name in ("first.py", "second.md", "3")]
FAILED = call("Grep", "failed", parameters={"pattern": "needle"})
CORRECTION = call("Bash", parameters={"command": "grep needle"})


def score(rows: list[Row]) -> Any:
    """Return (lost calls, score)."""
    report = only_report(rows)
    return report["lost_calls"], report["effectiveness_score"]


def test_calls_that_are_all_good_lose_nothing() -> None:
    assert score(GOOD) == (0.0, 100.0)


def test_a_failed_call_loses_one() -> None:
    # The score is 100 * (1 - 1 / 4).
    assert score([*GOOD, FAILED]) == (1.0, 75.0)


def test_a_failed_call_that_was_corrected_loses_half() -> None:
    # The score is 100 * (1 - 0.5 / 2).
    assert score([FAILED, CORRECTION]) == (0.5, 75.0)


def test_a_repeated_call_loses_half() -> None:
    # The score is 100 * (1 - 0.5 / 4).
    assert score([*GOOD, GOOD[0]]) == (0.5, 87.5)


def test_a_wasted_call_loses_one() -> None:
    rows = [call(said="the checkout module"), said("reply", "Done.")]

    assert score(rows) == (1.0, 0.0)


def test_a_failed_repeat_counts_once_with_the_higher_penalty() -> None:
    # The higher penalty counts, max(1, 0.5) twice: 100 * (1 - 2 / 2).
    assert score([FAILED, FAILED]) == (2.0, 0.0)


def test_a_repeat_that_was_corrected_counts_half_once() -> None:
    # The first is corrected, the second is corrected and a repeat: 100 * (1 - 1 / 3)
    lost, found = score([FAILED, FAILED, CORRECTION])

    assert (lost, found) == (1.0, pytest.approx(200 / 3))


def test_a_wasted_repeat_counts_as_wasted() -> None:
    rows = [call(said="a checkout"), call(said="an invoice"), said("reply", "the checkout")]

    # The first is used; the second repeats it and found the unused "invoice": 100 * (1 - 1 / 2)
    assert score(rows) == (1.0, 50.0)


def test_classes_that_are_unknown_are_left_out_and_named() -> None:
    report = only_report([call(parameters=None)] * 3 + [call("Bash", "failed", parameters=None)])

    assert report["effectiveness_score"] == 75.0
    assert report["basis"] == (
        "failed; unknown: repeated, corrected, loops (no parameters logged); "
        "unknown: wasted (no results logged)"
    )


def test_what_is_counted_is_named() -> None:
    report = only_report([call(said="ok")])

    assert report["basis"] == "failed, corrected, repeated, wasted"
    assert report["unknown"] == []


def test_a_list_is_empty_without_such_a_call_and_null_where_none_can_be_known() -> None:
    lists = ("failures", "repeats", "corrections", "wasted")
    known, unknown = only_report([call(said="ok")]), only_report([call(parameters=None)])

    assert [known[name] for name in lists] == [[], [], [], []]
    assert [unknown[name] for name in lists] == [[], None, None, None]


@pytest.mark.parametrize(("good", "flagged"), [(3, False), (2, True)])
def test_below_sixty_is_flagged(good: int, flagged: object) -> None:
    # 3 of 5 are 60, 2 of 4 are 50.
    fails = [call("Grep", "failed", parameters={"n": n}) for n in range(2)]
    report = only_report([*GOOD[:good], *fails])

    assert report["is_flagged"] is flagged


def test_without_a_call_of_known_outcome_there_is_no_score() -> None:
    report = only_report([call(outcome="denied"), call(outcome="unknown")])

    assert (report["total_calls"], report["denied_calls"], report["unknown_calls"]) == (0, 1, 1)
    assert (report["effectiveness_score"], report["is_flagged"]) == (None, None)
    assert (report["lost_calls"], report["lost_tokens"], report["repeats"]) == (0.0, None, None)
    (tool,) = report["by_tool"]
    assert (tool["tool"], tool["calls"], tool["denied"], tool["lost_calls"]) == ("Read", 0, 1, 0.0)


# -- tokens and money ----------------------------------------------------------------------------


def losses(rows: list[Row], **session: Any) -> Any:
    """Return (tokens, USD) lost in a session of 1000 tokens and 0.09 USD."""
    report = only_report(rows, **session)
    return report["lost_tokens"], report["lost_usd"]


def test_lost_tokens_are_bytes_of_lost_calls_by_their_penalty() -> None:
    # A failed call of 200 bytes and a repeat of 400: (200 * 1 + 400 * 0.5) / 4 = 100 tokens,
    # of 0.09 / 1000 USD each.
    rows = [*GOOD, GOOD[0], {**FAILED, "returned_bytes": 200}]

    assert losses(rows) == (100.0, pytest.approx(0.009))


def test_without_lost_calls_no_tokens_are_lost_even_if_sizes_are_unknown() -> None:
    assert losses([{**GOOD[0], "returned_bytes": None}]) == (0.0, 0.0)


def test_lost_tokens_are_unknown_if_the_size_of_a_lost_call_is() -> None:
    assert losses([*GOOD, {**FAILED, "returned_bytes": None}]) == (None, None)


@pytest.mark.parametrize(
    "session", [{"cost_usd": None}, {"total_tokens": None}, {"total_tokens": 0}]
)
def test_lost_usd_is_unknown_if_cost_or_tokens_are(session: dict[str, Any]) -> None:
    assert losses([*GOOD, FAILED], **session) == (100.0, None)


@pytest.mark.parametrize(("total_tokens", "usd"), [(100, pytest.approx(0.09)), (99, None)])
def test_no_more_is_lost_than_the_session_cost(total_tokens: int, usd: object) -> None:
    # 400 / 4 tokens: all of a session of 100, and more than one of 99 can have had.
    assert losses([*GOOD, FAILED], total_tokens=total_tokens) == (100.0, usd)


@pytest.mark.parametrize(("total_tokens", "usd"), [(200, [0.045, 0.045]), (199, [None, None])])
def test_all_tools_together_lose_no_more_than_the_session_cost(
    total_tokens: int, usd: list[float | None]
) -> None:
    # Each lost 400 / 4 tokens: half of the 0.09 USD of a session of 200.
    rows = [call("Read", "failed", returned_bytes=400), call("Grep", "failed", returned_bytes=400)]
    report = only_report(rows, total_tokens=total_tokens)
    assert [each["lost_usd"] for each in report["by_tool"]] == pytest.approx(usd)


def test_one_token_has_a_price() -> None:
    # 4 / 4 tokens, of 0.09 / 1 USD each.
    rows = [*GOOD, {**FAILED, "returned_bytes": 4}]
    assert losses(rows, total_tokens=1) == (1.0, pytest.approx(0.09))


def test_every_tool_has_its_share() -> None:
    rows = [
        call("Read", parameters={"file_path": "first.py"}, duration_ms=10.0),
        call("Read", parameters={"file_path": "first.py"}, duration_ms=30.0),
        call("Read", "denied"),
        call("Grep", "failed", duration_ms=None, returned_bytes=None),
        call("Bash", "denied"),
    ]
    report = only_report(rows)
    shown = ("tool", "calls", "failed", "denied", "repeated", "corrected", "wasted", "lost_calls")
    read, grep, bash = report["by_tool"]

    assert [read[name] for name in shown] == ["Read", 2, 0, 1, 1, 0, None, 0.5]
    # Halfway between 10 and 30; 95% of the way.
    assert (read["p50_ms"], read["p95_ms"]) == (20.0, pytest.approx(29.0))
    assert (read["bytes_returned"], read["bytes_known_calls"]) == (800, 2)
    # Half of 400 bytes counts: 400 * 0.5 / 4.
    assert (read["lost_tokens"], read["lost_usd"]) == (50.0, pytest.approx(0.0045))
    assert [grep[name] for name in shown] == ["Grep", 1, 1, 0, 0, 0, None, 1.0]
    assert (grep["p50_ms"], grep["bytes_returned"], grep["lost_tokens"]) == (None, None, None)
    assert [bash[name] for name in shown] == ["Bash", 0, 0, 1, None, None, None, 0.0]
    assert (bash["tool_class"], bash["bytes_known_calls"]) == ("shell", 0)
    assert (report["total_calls"], report["denied_calls"]) == (3, 2)
    assert (report["bytes_returned"], report["bytes_known_calls"]) == (800, 2)
