"""The effectiveness score and losses, worked out by hand."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.tool_reports import effectiveness
from evaluation_pipelines.sessions.domain.tool_reports import report as tool_report
from evaluation_pipelines.sessions.domain.tool_reports.fleet import (
    calls_by_tool,
    commonest_errors,
    lost_by,
    window_calls,
    window_failures,
)
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    calls_of,
    only_report,
    said,
    sessions_of,
)
from evaluation_pipelines_tests.world.rows import Row

GOOD = [call("Read", parameters={"file_path": name}) for name in ("first.py", "second.md", "3")]
FAILED = call("Grep", "failed", parameters={"pattern": "needle"})
CORRECTION = call("Bash", parameters={"command": "grep needle"})


@pytest.mark.parametrize(
    ("rows", "lost", "score"),
    [
        pytest.param(GOOD, 0.0, 100.0, id="all good"),
        pytest.param([*GOOD, FAILED], 1.0, 75.0, id="a failed one: 1 of 4"),
        pytest.param([FAILED, CORRECTION], 0.5, 75.0, id="a failed and corrected one: 0.5 of 2"),
        pytest.param([*GOOD, GOOD[0]], 0.5, 87.5, id="a repeat: 0.5 of 4"),
        pytest.param(
            [call(said="the checkout module"), said("reply", "Done.")], 1.0, 0.0, id="a wasted one"
        ),
        # The higher penalty counts, max(1, 0.5) twice.
        pytest.param([FAILED, FAILED], 2.0, 0.0, id="a failed repeat"),
        # The first is corrected, the second is corrected and a repeat: 100 * (1 - 1 / 3).
        pytest.param([FAILED, FAILED, CORRECTION], 1.0, 200 / 3, id="a corrected repeat"),
        # The first is used; the second repeats it and found the unused "invoice".
        pytest.param(
            [call(said="a checkout"), call(said="an invoice"), said("reply", "the checkout")],
            1.0,
            50.0,
            id="a wasted repeat",
        ),
    ],
)
def test_each_call_loses_its_highest_penalty(rows: list[Row], lost: float, score: float) -> None:
    report = only_report(rows)

    assert report["lost_calls"] == lost
    assert report["effectiveness_score"] == pytest.approx(score)


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
    assert [tool["lost_usd"] for tool in report["by_tool"]] == pytest.approx(usd)


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


ROWS = [
    # Session 1, model a, 0.09 USD for 1000 tokens: two reads, one a repeat, and a failed Bash.
    call("Read"),
    call("Read"),
    call("Bash", "failed", parameters={"command": "make"}),
    # Session 2, model b, cost unknown: two failed calls, one of unknown size.
    call("Bash", "failed", session_id="s2", parameters=None),
    call("Read", "failed", session_id="s2", parameters=None, returned_bytes=None),
    # Session 3, model b: only a denied call.
    call("Read", "denied", session_id="s3"),
    # Session 4, model b: a call that succeeds.
    call("Bash", session_id="s4", parameters={"command": "make"}),
]


def frames(rows: list[Row]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return reports and sessions."""
    sessions = sessions_of(rows).with_columns(
        model=pl.when(session_id="s1").then(pl.lit("a")).otherwise(pl.lit("b")),
        cost_usd=pl.when(session_id="s1").then("cost_usd"),
    )
    return tool_reports(calls_of(rows), sessions), sessions


def picked(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


COUNTS = (
    *("sessions", "calls", "failed", "corrected", "repeated", "only_repeated", "wasted"),
    *("lost_calls", "lost_pct", "repeats_known", "waste_known"),
)
MONEY = ("lost_tokens", "lost_usd", "cost_share_usd", "known_sessions")


def test_tools_are_summed_over_sessions() -> None:
    bash, read = lost_by("tool", calls_by_tool(*frames(ROWS))).to_dicts()

    # Sessions 1 (one of one) and 2 (one of one, no parameters) failed; session 4 did not.
    assert picked(bash, "tool", *COUNTS) == [
        *("Bash", 3, 3, 2, 0, 0, 0, None, 2.0, pytest.approx(200 / 3), 2, 0)
    ]
    # Twice 400 / 4 tokens; session 1: 0.00009 USD each, and 1 of 3 calls of 0.09 USD.
    assert picked(bash, *MONEY) == [200.0, pytest.approx(0.009), pytest.approx(0.03), 3]
    # A repeat, 0.5 of 2 calls, in session 1; a failure in session 2, without parameters.
    assert picked(read, "tool", *COUNTS) == ["Read", 2, 3, 1, 0, 1, 1, None, 1.5, 50.0, 2, 0]
    # 400 * 0.5 / 4, where the size is known; 0.5 of 3 calls of 0.09 USD.
    assert picked(read, *MONEY) == [50.0, pytest.approx(0.0045), pytest.approx(0.015), 1]


def test_models_are_summed_over_sessions() -> None:
    b, a = lost_by("model", window_calls(*frames(ROWS))).to_dicts()

    # Session 3 has no call with a known outcome; session 4 has one that succeeded.
    assert picked(b, "model", *COUNTS) == [
        *("b", 2, 3, 2, 0, 0, 0, None, 2.0, pytest.approx(200 / 3), 1, 0)
    ]
    assert picked(b, *MONEY) == [0.0, None, None, 1]
    assert picked(a, "model", *COUNTS) == ["a", 1, 3, 1, 0, 1, 1, None, 1.5, 50.0, 3, 0]
    # 50 + 100 tokens; 1.5 of 3 calls of 0.09 USD.
    assert picked(a, *MONEY) == [150.0, pytest.approx(0.0135), pytest.approx(0.045), 1]


def test_lost_calls_follow_from_the_columns() -> None:
    rows = [
        # Failed twice: the second is a repeat as well, and counts once, as failed.
        call("Bash", "failed", parameters={"command": "make"}),
        call("Bash", "failed", parameters={"command": "make"}),
        # A repeat that succeeds counts a half.
        call("Bash", parameters={"command": "ls"}),
        call("Bash", parameters={"command": "ls"}),
    ]
    (bash,) = lost_by("tool", calls_by_tool(*frames(rows))).to_dicts()

    assert picked(bash, "failed", "corrected", "repeated", "only_repeated", "wasted") == [
        *(2, 0, 2, 1, None)
    ]
    assert bash["lost_calls"] == 2.5 == 2 - 0 / 2 + 1 / 2


def test_no_reports_are_no_rows() -> None:
    reports, sessions = frames(ROWS)

    assert lost_by("tool", calls_by_tool(reports.clear(), sessions)).is_empty()
    assert lost_by("model", window_calls(reports.clear(), sessions)).is_empty()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Exit code 2\nAn error occurred.", "exit code 2"),
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 137", "exit code 137"),
        ('{"output":"","metadata":{"exit_code":3,"duration_seconds":0.0}}', "exit code 3"),
        ("\n  File does not exist.\nLook again.", "File does not exist."),
        ("x" * 200, "x" * 120),
        ("", None),
    ],
)
def test_an_error_is_its_exit_code_or_its_first_line(text: str, error: str | None) -> None:
    reports, _ = frames([call("Bash", "failed", error=text)])

    assert window_failures(reports)["error"].to_list() == [error]


def test_the_most_frequent_error_of_a_tool_names_a_session_that_may_be_named() -> None:
    rows = [
        *(call("Read", "failed", error="File does not exist.") for _ in range(2)),
        call("Read", "failed", session_id="s2", error="File does not exist."),
        *(call("Read", "failed", session_id="s3", error="Timeout") for _ in range(2)),
        *(call("Bash", "failed", session_id="s1", error=None) for _ in range(9)),
    ]
    failures = window_failures(frames(rows)[0])

    (every,) = commonest_errors(failures, pl.lit(value=True)).to_dicts()
    (other,) = commonest_errors(failures, pl.col("session_key") != every["session_key"]).to_dicts()
    (none,) = commonest_errors(failures, pl.lit(value=False)).to_dicts()

    # Twice in session 1 and once in session 2, against twice in session 3.
    assert [picked(loss, "tool", "error", "calls") for loss in (every, other, none)] == [
        ["Read", "File does not exist.", 3]
    ] * 3
    assert every["session_key"].startswith("s1#")
    assert other["session_key"].startswith("s2#")
    assert none["session_key"] is None


def result(text: str, **columns: Any) -> Row:
    """Return a read with a logged result."""
    return call(said=text, **columns)


def wasted(rows: list[Row]) -> list[int] | None:
    """Return the numbers of the wasted calls."""
    found = only_report(rows)["wasted"]
    return None if found is None else [call["call"] for call in found]


USES_CHECKOUT = call("Grep", parameters={"pattern": "def checkout"})


MODULE = result("the checkout module")
FINE = said("reply", "The checkout is fine.")
OTHER_PATH = {"path": "x"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([MODULE], [1]),
        # Later parameters, of any outcome, and replies use it.
        ([MODULE, USES_CHECKOUT], []),
        ([MODULE, call("Edit", parameters={"old_string": "checkout(cart)"})], []),
        ([MODULE, call("Bash", "failed", parameters={"command": "run Checkout"})], []),
        ([MODULE, call("Bash", "denied", parameters={"command": "run checkout"})], []),
        ([MODULE, said("reply", "I changed the checkout.")], []),
        # Prompts, other results, parts of words and longer words do not.
        ([MODULE, said("prompt", "And the checkout?")], [1]),
        ([MODULE, result("the checkout again", parameters=OTHER_PATH)], [1]),
        ([MODULE, said("reply", "I changed the check-out.")], [1]),
        ([MODULE, said("reply", "I changed checkouts_2.")], [1]),
        # A word of an earlier text is not new: "module" alone is, and the reply does not use it.
        ([said("prompt", "Look at the checkout."), MODULE, FINE], [1]),
        ([said("reply", "I look at the checkout."), MODULE, FINE], [1]),
        ([result("checkout", parameters=OTHER_PATH), MODULE, FINE], [2]),
        ([call("Bash", "failed", said="no such file: checkout"), MODULE, FINE], [2]),
        ([call("Bash", "denied", parameters={"command": "run checkout"}), MODULE, FINE], [1]),
        # "invoice" is not new, and nothing uses "checkout" later.
        ([said("reply", "I look at the invoice."), result("invoice and checkout")], [1]),
        # Its own parameters are not new.
        ([result("checkout module", parameters={"path": "checkout"}), FINE], [1]),
        # Of six letters on: only "module" is long enough, and nothing uses it.
        ([result("a cart module"), said("reply", "The cart is fine.")], [1]),
        # Neither "cart" nor "py" has six letters, "cart.py" has seven.
        ([result("cart.py stock.py"), call("Edit", parameters={"file_path": "src/cart.py"})], []),
        # Nothing new is in them.
        ([result("ok"), result(""), said("reply", "Done.")], []),
        # What failed or changed something is not called wasted.
        (
            [
                call("Bash", "failed", said="nothing but errors"),
                call("Edit", said="updated successfully", parameters={"file_path": "b.py"}),
                call("Bash", said="removed successfully", parameters={"command": "rm c.py"}),
                result("unused checkout"),
            ],
            [4],
        ),
    ],
)
def test_a_result_is_wasted_if_no_new_word_of_it_is_used_later(
    rows: list[Row], expected: list[int]
) -> None:
    assert wasted(rows) == expected


def test_without_results_it_is_unknown() -> None:
    report = only_report([call(), call("Bash", "failed", said="an error")])

    assert (report["wasted_calls"], report["wasted"], report["untraced"]) == (None, None, None)
    assert report["unknown"] == ["wasted"]
    assert "unknown: wasted (no results logged)" in report["basis"]


def test_only_logged_results_are_traced() -> None:
    report = only_report([call(), result("the checkout module", parameters={"path": "b"})])

    assert [call["call"] for call in report["wasted"]] == [2]
    assert "results of 1 of 2 calls" in report["basis"]


def test_where_replies_are_not_logged_what_no_call_uses_is_untraced_not_wasted() -> None:
    report = only_report(
        [
            result("the checkout module", hides_replies=True),
            result("an invoice", hides_replies=True, parameters={"path": "checkout"}),
        ]
    )

    assert (report["wasted_calls"], report["wasted"]) == (None, None)
    assert [(call["call"], call["new_tokens"]) for call in report["untraced"]] == [(2, 1)]
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

    assert [call["call"] for call in report["wasted"]] == [1]
    assert "in part" in report["basis"]


def test_a_wasted_call_lists_the_number_of_new_tokens() -> None:
    (listed,) = only_report([result("checkout module, checkout again")])["wasted"]

    assert (listed["new_tokens"], listed["bytes_returned"], listed["tool"]) == (2, 400, "Read")
