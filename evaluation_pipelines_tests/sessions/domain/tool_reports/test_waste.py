"""Wasted calls, worked out by hand. Calls are numbered from 1."""

from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.tool_reports import effectiveness
from evaluation_pipelines.sessions.domain.tool_reports import report as tool_report
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    calls_of,
    only_report,
    said,
    sessions_of,
)


def result(text: str, **columns: Any) -> Row:
    """Return a read with a logged result."""
    return call(said=text, **columns)


def wasted(rows: list[Row]) -> list[int] | None:
    """Return the numbers of the wasted calls."""
    found = only_report(rows)["wasted"]
    return None if found is None else [each["call"] for each in found]


USES_CHECKOUT = call("Grep", parameters={"pattern": "def checkout"})


def test_an_unused_result_is_wasted() -> None:
    assert wasted([result("the checkout module")]) == [1]


@pytest.mark.parametrize(
    "later",
    [
        USES_CHECKOUT,
        call("Edit", parameters={"old_string": "checkout(cart)"}),
        call("Bash", "failed", parameters={"command": "run Checkout"}),
        call("Bash", "denied", parameters={"command": "run checkout"}),
        said("reply", "I changed the checkout."),
    ],
    ids=["parameters", "edit", "failed call", "denied call", "reply"],
)
def test_a_result_is_used_by_later_parameters_edits_and_replies(later: Row) -> None:
    assert wasted([result("the checkout module"), later]) == []


@pytest.mark.parametrize(
    "later",
    [
        said("prompt", "And the checkout?"),
        result("the checkout again", parameters={"path": "x"}),
        said("reply", "I changed the check-out."),
        said("reply", "I changed checkouts_2."),
    ],
    ids=["prompt", "result", "part of a word", "longer word"],
)
def test_prompts_other_results_and_other_words_do_not_use_a_result(later: Row) -> None:
    assert 1 in (wasted([result("the checkout module"), later]) or [])


def test_use_before_the_call_is_no_use() -> None:
    rows = [said("reply", "I look at the invoice."), result("invoice and checkout")]

    # "invoice" is not new, and nothing uses "checkout".
    assert wasted(rows) == [1]


@pytest.mark.parametrize(
    ("known", "number"),
    [
        (said("prompt", "Look at the checkout."), 1),
        (said("reply", "I look at the checkout."), 1),
        (result("checkout", parameters={"path": "x"}), 2),
        (call("Bash", "failed", said="no such file: checkout"), 2),
        (call("Bash", "denied", parameters={"command": "run checkout"}), 1),
    ],
    ids=["prompt", "reply", "result", "error", "parameters"],
)
def test_tokens_of_earlier_texts_are_not_new(known: Row, number: int) -> None:
    # "module" alone is new, and the reply does not use it.
    rows = [known, result("the checkout module"), said("reply", "The checkout is fine.")]

    assert wasted(rows) == [number]


def test_tokens_of_its_own_parameters_are_not_new() -> None:
    rows = [
        result("checkout module", parameters={"path": "checkout"}),
        said("reply", "The checkout is fine."),
    ]

    assert wasted(rows) == [1]


def test_words_of_fewer_than_six_letters_are_ignored() -> None:
    # Only "module" is long enough, and nothing uses it.
    rows = [result("a cart module"), said("reply", "The cart is fine.")]

    assert wasted(rows) == [1]


def test_a_name_with_a_dot_counts_as_one_word() -> None:
    # Neither "cart" nor "py" has six letters, "cart.py" has seven.
    rows = [result("cart.py stock.py"), call("Edit", parameters={"file_path": "src/cart.py"})]

    assert wasted(rows) == []


def test_a_result_with_nothing_new_is_not_called_wasted() -> None:
    rows = [result("ok"), result(""), said("reply", "Done.")]

    assert wasted(rows) == []


def test_calls_that_failed_or_changed_something_are_not_called_wasted() -> None:
    rows = [
        call("Bash", "failed", said="nothing but errors"),
        call("Edit", said="updated successfully", parameters={"file_path": "b.py"}),
        call("Bash", said="removed successfully", parameters={"command": "rm c.py"}),
        result("unused checkout"),
    ]

    assert wasted(rows) == [4]


def test_without_results_it_is_unknown() -> None:
    report = only_report([call(), call("Bash", "failed", said="an error")])

    assert (report["wasted_calls"], report["wasted"], report["untraced"]) == (None, None, None)
    assert report["unknown"] == ["wasted"]
    assert "unknown: wasted (no results logged)" in report["basis"]


def test_only_logged_results_are_traced() -> None:
    report = only_report([call(), result("the checkout module", parameters={"path": "b"})])

    assert [each["call"] for each in report["wasted"]] == [2]
    assert "results of 1 of 2 calls" in report["basis"]


def test_where_replies_are_not_logged_what_no_call_uses_is_untraced_not_wasted() -> None:
    report = only_report(
        [
            result("the checkout module", hides_replies=True),
            result("an invoice", hides_replies=True, parameters={"path": "checkout"}),
        ]
    )

    assert (report["wasted_calls"], report["wasted"]) == (None, None)
    assert [(each["call"], each["new_tokens"]) for each in report["untraced"]] == [(2, 1)]
    assert "unknown: wasted (replies not logged)" in report["basis"]
    assert report["effectiveness_score"] == 100.0


def test_where_replies_are_not_logged_but_calls_use_everything_nothing_is_wasted() -> None:
    report = only_report(
        [
            result("the checkout module", hides_replies=True),
            call("Edit", parameters={"old_string": "checkout"}, hides_replies=True),
        ]
    )

    assert (report["wasted_calls"], report["wasted"], report["untraced"]) == (0, [], [])


def test_another_session_uses_nothing() -> None:
    rows = [result("the checkout module"), call(session_id="s2", parameters={"path": "checkout"})]

    assert wasted([row for row in rows if row["session_id"] == "s1"]) == [1]


def test_a_later_window_of_the_session_may_use_it() -> None:
    rows = [result("the checkout module"), {**USES_CHECKOUT, "session_key": "s1#other-1"}]
    found = tool_report.tool_reports(calls_of(rows), sessions_of(rows))

    assert found["wasted_calls"].to_list() == [0, None]


def test_only_the_beginning_of_a_long_result_is_read_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effectiveness, "MAX_RESULT_CHARACTERS", 10)
    monkeypatch.setattr(tool_report, "MAX_RESULT_CHARACTERS", 10)
    report = only_report([result("invoices, and checkout"), said("reply", "checkout")])

    assert [each["call"] for each in report["wasted"]] == [1]
    assert "in part" in report["basis"]


def test_a_wasted_call_lists_the_number_of_new_tokens() -> None:
    (listed,) = only_report([result("checkout module, checkout again")])["wasted"]

    assert (listed["new_tokens"], listed["bytes_returned"], listed["tool"]) == (2, 400, "Read")
