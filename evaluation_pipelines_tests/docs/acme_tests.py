"""Acme Agent: what its records become."""

import json

from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.world import NOON_NS, attributes, request


def sent(name: str, **values: object) -> bytes:
    """A line with one record; ``__`` in a key stands for a dot."""
    named = {key.replace("__", "."): value for key, value in values.items()}
    given = {"event.name": f"acme.{name}", "acme.session": "s1", **named}
    record = {"timeUnixNano": str(NOON_NS), "attributes": attributes(given)}
    return json.dumps(request([record], scope="acme.agent")).encode() + b"\n"


def test_a_command_that_exited_with_an_error_has_failed_whatever_is_said_of_it() -> None:
    batch = read(
        sent("tool.begun", tool="terminal"),
        sent("tool.done", tool="terminal", call="c1", ok=True, exit=2, seconds=1.5),
    )
    (row,) = batch.events.iter_rows(named=True)
    assert (row["source_cli"], row["event_name"], row["tool_class"]) == (
        "acme",
        "tool_result",
        "shell",
    )
    assert (row["success"], row["success_source"], row["exit_code"]) == (False, "exit_code", 2)
    assert row["duration_ms"] == 1500.0  # 1.5 s * 1000
    assert batch.counts.repeated_records == 1


def test_input_tokens_do_not_count_cached_ones() -> None:
    line = sent("model.answered", model="m", tokens__in=1000, tokens__cached=800, tokens__out=50)
    (row,) = read(line).events.iter_rows(named=True)
    assert (row["input_tokens"], row["cache_read_tokens"]) == (200, 800)  # 1000 - 800
    # A dollar a million in the price table of the tests: 200 + 50 + 800 tokens.
    assert (row["cost_usd"], row["cost_source"]) == (0.00105, "priced")


def test_what_cannot_be_is_unknown_and_counted() -> None:
    batch = read(sent("tool.done", tool=5, ok="perhaps", exit="x", seconds=[], arguments="{"))
    (row,) = batch.events.iter_rows(named=True)
    assert (row["success"], row["exit_code"], row["duration_ms"]) == (None, None, None)
    assert batch.counts.value_anomalies == 1  # ok
