"""Tokens, cost, models and provider of a window."""

from typing import Any

import pytest

from evaluation_pipelines_tests.builders import Row, api_request, don, event, prompt, tool
from evaluation_pipelines_tests.sql.session_queries import only_window, windows

_INPUT_SIDE = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_SUMS = (*_INPUT_SIDE, "output_tokens", "total_tokens")
_LARGEST = 2**63 - 1


def api_error(seconds: float, **columns: object) -> Row:
    return event("api_error", seconds, **columns)


def wire_try(seconds: float, **columns: object) -> Row:
    """One try over the wire, of a source that logs tries in addition to requests."""
    return event("other", seconds, source_event_name="api_request", **columns)


def picked(window: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(window[name] for name in names)


def test_tokens_are_summed_over_the_api_requests() -> None:
    requests = [
        api_request(
            second,
            input_tokens=1,
            cache_read_tokens=20,
            cache_creation_tokens=300,
            output_tokens=4000,
        )
        for second in (0, 1)
    ]

    window = only_window([*requests, tool(2, input_tokens=9)])

    # 2 + 40 + 600 + 8000
    assert picked(window, *_SUMS) == (2, 40, 600, 8000, 8642)


def test_tokens_are_unknown_without_any_api_event() -> None:
    window = only_window([prompt(0), tool(1)])

    assert picked(window, *_SUMS, "reasoning_tokens") == (None,) * 6
    assert picked(window, "api_requests", "api_errors") == (0, 0)


def test_tokens_are_zero_where_every_request_failed() -> None:
    window = only_window([prompt(0), api_error(1, input_tokens=5)])

    assert picked(window, *_SUMS) == (0,) * 5
    assert picked(window, "reasoning_tokens", "api_requests", "api_errors") == (None, 0, 1)


def test_tokens_are_zero_where_every_try_failed_and_no_try_is_a_request() -> None:
    window = only_window([prompt(0), wire_try(1, success=False), wire_try(2, success=False)])

    assert picked(window, *_SUMS) == (0,) * 5
    assert picked(window, "api_requests", "api_errors", "cost_usd", "models") == (0, 0, 0.0, [])


@pytest.mark.parametrize("success", [True, None])
def test_a_try_that_did_not_fail_says_nothing_of_tokens(success: bool | None) -> None:
    window = only_window([prompt(0), wire_try(1, success=success, input_tokens=5)])

    assert picked(window, *_SUMS) == (None,) * 5


def test_a_failed_try_takes_nothing_from_the_requests_that_were_answered() -> None:
    window = only_window([wire_try(0, success=False, duration_ms=5.0), api_request(1)])

    # 10 + 20 + 70
    assert picked(window, "total_tokens", "api_requests", "api_errors") == (100, 1, 0)
    assert picked(window, "cost_usd", "api_ms", "models") == (0.01, 1000.0, ["model-a"])


@pytest.mark.parametrize("column", [*_INPUT_SIDE, "output_tokens"])
def test_one_request_that_does_not_say_makes_the_sum_and_the_total_unknown(column: str) -> None:
    silent: dict[str, object] = {column: None}

    window = only_window([api_request(0), api_request(1, **silent)])

    assert {name for name in _SUMS if window[name] is None} == {column, "total_tokens"}


def test_no_token_in_and_some_out_means_that_those_in_are_unknown() -> None:
    zero: dict[str, object] = dict.fromkeys(_INPUT_SIDE, 0)

    window = only_window([api_request(0, **zero, output_tokens=7)])

    assert picked(window, *_SUMS) == (None, None, None, 7, None)


@pytest.mark.parametrize("column", _INPUT_SIDE)
def test_one_kind_of_tokens_in_is_enough_to_know_them_all(column: str) -> None:
    some = dict.fromkeys(_INPUT_SIDE, 0) | {column: 5}

    window = only_window([api_request(0, **some, output_tokens=7)])

    assert {name: window[name] for name in _INPUT_SIDE} == some
    assert window["total_tokens"] == 12


def test_reasoning_tokens_are_summed_where_they_are_given() -> None:
    rows = [api_request(0, reasoning_tokens=3), api_request(1)]

    assert only_window(rows)["reasoning_tokens"] == 3
    assert only_window(rows[1:])["reasoning_tokens"] is None


def test_a_sum_beyond_any_number_is_unknown_and_stops_nothing() -> None:
    rows = [api_request(second, input_tokens=_LARGEST) for second in (0, 1)]

    assert picked(only_window(rows), "input_tokens", "total_tokens", "output_tokens") == (
        None,
        None,
        40,
    )


def test_each_window_has_its_own_tokens() -> None:
    rows = [prompt(0), api_request(1), don("A", 2), api_request(3), api_request(4)]

    assert [row["total_tokens"] for row in windows(rows).values()] == [100, 200]


def test_cost_is_summed_when_every_request_has_one() -> None:
    window = only_window([api_request(0, cost_usd=0.25), api_request(1, cost_usd=0.5)])

    assert picked(window, "cost_usd", "cost_known_calls") == (0.75, 2)


def test_one_request_without_cost_makes_it_unknown_and_the_known_ones_are_counted() -> None:
    window = only_window([api_request(0), api_request(1, cost_usd=None)])

    assert picked(window, "cost_usd", "cost_known_calls", "api_requests") == (None, 1, 2)


def test_cost_is_unknown_without_any_api_event_and_nothing_where_all_failed() -> None:
    assert only_window([tool(0)])["cost_usd"] is None
    assert only_window([api_error(0)])["cost_usd"] == 0.0


def test_api_durations_are_those_of_answered_requests() -> None:
    rows = [
        api_request(0, duration_ms=100.0),
        api_request(1, duration_ms=200.0),
        api_request(2, duration_ms=None),
        api_error(3, duration_ms=5000.0),
    ]

    assert picked(only_window(rows), "api_ms", "mean_api_ms") == (300.0, 150.0)


def test_api_durations_are_unknown_where_none_is_given() -> None:
    window = only_window([api_request(0, duration_ms=None)])

    assert picked(window, "api_ms", "mean_api_ms") == (None, None)


def test_the_only_model_is_the_model_even_without_output() -> None:
    rows = [api_request(0, output_tokens=None), api_request(1, model=None), api_error(2)]

    assert picked(only_window(rows), "model", "models") == ("model-a", ["model-a"])


def test_there_is_no_model_where_no_request_names_one() -> None:
    rows = [api_request(0, model=None), api_error(1, model="model-a")]

    assert picked(only_window(rows), "model", "models") == (None, [])


def test_where_no_request_was_answered_the_failed_ones_name_model_and_provider() -> None:
    failed = [api_error(second, model="a", provider="p") for second in (1, 2)]
    window = only_window([prompt(0), *failed])

    assert picked(window, "status", "model", "models", "provider") == ("failed", "a", [], "p")


def test_several_models_that_all_failed_are_mixed_whatever_tokens_they_claim() -> None:
    rows = [
        api_error(0, model="b", provider="q"),
        api_error(1, model="a", provider="p", output_tokens=100),
    ]

    assert picked(only_window(rows), "model", "models", "provider") == (
        "mixed",
        [],
        "mixed",
    )


def test_an_answered_request_alone_names_model_and_provider() -> None:
    rows = [api_request(0), api_error(1, model="b", provider="q")]

    assert picked(only_window(rows), "model", "models", "provider") == (
        "model-a",
        ["model-a"],
        "provider-a",
    )


@pytest.mark.parametrize(("tokens_of_a", "expected"), [(80, "model-a"), (79, "mixed")])
def test_of_several_models_the_one_with_80_percent_of_the_output_counts(
    tokens_of_a: int, expected: str
) -> None:
    rows = [
        api_request(0, output_tokens=tokens_of_a - 50),
        api_request(1, model="model-b", output_tokens=100 - tokens_of_a),
        api_request(2, output_tokens=50),
    ]

    assert picked(only_window(rows), "model", "models") == (expected, ["model-a", "model-b"])


def test_several_models_without_output_are_mixed() -> None:
    rows = [api_request(0, output_tokens=0), api_request(1, model="b", output_tokens=0)]

    assert only_window(rows)["model"] == "mixed"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        # The only one that is named, whatever the models.
        ([("a", "p"), ("a", None)], "p"),
        ([("a", "p"), ("b", "p")], "p"),
        # None is named.
        ([("a", None)], None),
        # Several, and no model stands for the window.
        ([("a", "p"), ("b", "q")], "mixed"),
        # Several for one model.
        ([("a", "p"), ("a", "q")], "mixed"),
        # Model a has 9 of 10 parts of the output: its provider.
        ([("a", "p")] * 9 + [("b", "q")], "p"),
        # ... and where that is not known, none of the others stands in for it.
        ([("a", None)] * 18 + [("b", "q"), ("c", "r")], None),
    ],
    ids=str,
)
def test_the_provider_follows_the_model(
    requests: list[tuple[str, str | None]], expected: str | None
) -> None:
    rows = [
        api_request(second, model=model, provider=provider)
        for second, (model, provider) in enumerate(requests)
    ]

    assert only_window(rows)["provider"] == expected


_HIGH, _FAST = "effort high", "speed fast"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([("a", None, 10)], None),
        ([("a", _HIGH, 10)], _HIGH),
        # 8 of 10 parts of the output, and 7 of 10.
        ([("a", _HIGH, 8), ("a", None, 2)], _HIGH),
        ([("a", _HIGH, 2), ("a", None, 8)], None),
        ([("a", _HIGH, 7), ("a", None, 3)], "mixed"),
        ([("a", _HIGH, 5), ("a", _FAST, 5)], "mixed"),
        # Another model does not count, and several models have none.
        ([("a", _HIGH, 9), ("b", _FAST, 1)], _HIGH),
        ([("a", None, 9), ("b", _FAST, 1)], None),
        ([("a", _HIGH, 5), ("b", _HIGH, 5)], None),
    ],
    ids=str,
)
def test_the_variant_is_that_of_80_percent_of_the_output_of_the_model(
    requests: list[tuple[str, str | None, int]], expected: str | None
) -> None:
    rows = [
        api_request(second, model=model, model_variant=variant, output_tokens=output)
        for second, (model, variant, output) in enumerate(requests)
    ]

    assert only_window(rows)["model_variant"] == expected


def test_what_a_conversation_started_with_counts_where_its_requests_do_not_tell() -> None:
    start = {
        **api_request(0, model_variant=_HIGH),
        "event_name": "other",
        "source_event_name": "conversation_starts",
    }

    assert only_window([start, api_request(1)])["model_variant"] == _HIGH
    assert only_window([start, api_request(1, model_variant=_FAST)])["model_variant"] == _FAST
