"""Tokens, cost, models and provider of a window."""

import pytest

from evaluation_pipelines_tests.sql.session_queries import only_window, windows
from evaluation_pipelines_tests.world.rows import Row, api_request, don, event, prompt, tool

_INPUT_SIDE = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_SUMS = (*_INPUT_SIDE, "output_tokens", "total_tokens")
_LARGEST = 2**63 - 1


def api_error(seconds: float, **columns: object) -> Row:
    return event("api_error", seconds, **columns)


def wire_try(seconds: float, **columns: object) -> Row:
    """One try over the wire, of a source that logs tries in addition to requests."""
    return event("other", seconds, source_event_name="api_request", **columns)


def sums(*tokens: int | None) -> dict[str, object]:
    return dict(zip(_SUMS, tokens, strict=True))


def kinds(second: float, *tokens: int) -> Row:
    """An answered request with its tokens: input, read, written to the cache, output."""
    return api_request(second, **dict(zip(_SUMS, tokens, strict=False)))


MANY = {"input_tokens": 1, "cache_read_tokens": 20, "cache_creation_tokens": 300}
MANY |= {"output_tokens": 4000}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # 2 + 40 + 600 + 8000, of requests alone
        ([api_request(0, **MANY), api_request(1, **MANY), tool(2, input_tokens=9)],
         sums(2, 40, 600, 8000, 8642)),
        # Unknown without any event of the API, and 0 where every request or try failed;
        # a try is no request.
        ([prompt(0), tool(1)], sums(*[None] * 5) | {"reasoning_tokens": None, "api_requests": 0,
                                                    "api_errors": 0, "cost_usd": None}),
        ([prompt(0), api_error(1, input_tokens=5)],
         sums(*[0] * 5) | {"reasoning_tokens": None, "api_requests": 0, "api_errors": 1,
                           "cost_usd": 0.0}),
        ([prompt(0), wire_try(1, success=False), wire_try(2, success=False)],
         sums(*[0] * 5) | {"api_requests": 0, "api_errors": 0, "cost_usd": 0.0, "models": []}),
        # A try that did not fail says nothing, one that did takes nothing from those answered.
        *(([prompt(0), wire_try(1, success=success, input_tokens=5)], sums(*[None] * 5))
          for success in (True, None)),
        ([wire_try(0, success=False, duration_ms=5.0), api_request(1)],
         {"total_tokens": 100, "api_requests": 1, "api_errors": 0, "cost_usd": 0.01,
          "api_ms": 1000.0, "models": ["model-a"]}),
        # One request that does not say makes the sum and the total unknown; of two others 20, 140,
        # 0 and 40.
        *(([api_request(0), api_request(1, **{column: None})],
           sums(20, 140, 0, 40, None) | {column: None})
          for column in (*_INPUT_SIDE, "output_tokens")),
        # Of a program that sends no count of cached tokens, they are among the input: 100 and 30.
        ([api_request(0), api_request(1, cache_read_tokens=None, cache_creation_tokens=None)],
         sums(20, None, None, 40, 130)),
        # No token in and some out: those in are unknown. One kind is enough to know them all.
        ([kinds(0, 0, 0, 0, 7)], sums(None, None, None, 7, None)),
        ([kinds(0, 5, 0, 0, 7)], sums(5, 0, 0, 7, 12)),
        ([kinds(0, 0, 5, 0, 7)], sums(0, 5, 0, 7, 12)),
        ([kinds(0, 0, 0, 5, 7)], sums(0, 0, 5, 7, 12)),
        ([api_request(0, reasoning_tokens=3), api_request(1)], {"reasoning_tokens": 3}),
        ([api_request(1)], {"reasoning_tokens": None}),
        # A sum beyond any number is unknown and stops nothing.
        ([api_request(second, input_tokens=_LARGEST) for second in (0, 1)],
         {"input_tokens": None, "total_tokens": None, "output_tokens": 40}),
    ],
)  # fmt: skip
def test_tokens_are_summed_over_the_api_requests(
    rows: list[Row], expected: dict[str, object]
) -> None:
    window = only_window(rows)
    assert {name: window[name] for name in expected} == expected


def answered(second: float, usd: float | None = 0.01, ms: float | None = 1000.0) -> Row:
    return api_request(second, cost_usd=usd, duration_ms=ms)


def named(model: str | None, provider: str | None, *models: str) -> dict[str, object]:
    return {"model": model, "provider": provider, "models": [*models]}


A, P = "model-a", "provider-a"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([answered(0, 0.25), answered(1, 0.5)], {"cost_usd": 0.75, "cost_known_calls": 2}),
        # One request without cost makes it unknown, and the known ones are counted.
        ([answered(0), answered(1, None)],
         {"cost_usd": None, "cost_known_calls": 1, "api_requests": 2}),
        # Durations are those of answered requests.
        ([answered(0, ms=100.0), answered(1, ms=200.0), answered(2, ms=None),
          api_error(3, duration_ms=5000.0)], {"api_ms": 300.0, "mean_api_ms": 150.0}),
        ([answered(0, ms=None)], {"api_ms": None, "mean_api_ms": None}),
        # The only model is the model, even without output.
        ([api_request(0, output_tokens=None), api_request(1, model=None), api_error(2)],
         named(A, P, A)),
        ([api_request(0, model=None), api_error(1, model=A)], {"model": None, "models": []}),
        # Where none was answered the failed ones name model and provider, but no models.
        ([prompt(0), *(api_error(n, model="a", provider="p") for n in (1, 2))],
         named("a", "p") | {"status": "failed"}),
        ([api_error(0, model="b", provider="q"),
          api_error(1, model="a", provider="p", output_tokens=100)], named("mixed", "mixed")),
        ([api_request(0), api_error(1, model="b", provider="q")], named(A, P, A)),
        # Of several models the one with 80% of the output counts, and without output none.
        *(
            ([api_request(0, output_tokens=share - 50), api_request(2, output_tokens=50),
              api_request(1, model="model-b", output_tokens=100 - share)],
             {"model": expected, "models": [A, "model-b"]})
            for share, expected in ((80, A), (79, "mixed"))
        ),
        ([api_request(0, output_tokens=0), api_request(1, model="b", output_tokens=0)],
         {"model": "mixed"}),
    ],
)  # fmt: skip
def test_cost_durations_and_models_are_those_of_the_requests(
    rows: list[Row], expected: dict[str, object]
) -> None:
    window = only_window(rows)
    assert {name: window[name] for name in expected} == expected


def test_each_window_has_its_own_tokens() -> None:
    rows = [prompt(0), api_request(1), don("A", 2), api_request(3), api_request(4)]

    assert [row["total_tokens"] for row in windows(rows).values()] == [100, 200]


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
