"""Grouping of records by shape does not change the events."""

import json
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain import reader
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.telemetry.fuzz import mutated_lines
from evaluation_pipelines_tests.world import attributes, claude, line, request


def test_events_are_in_the_order_read_for_any_shapes() -> None:
    names = ["user_prompt", "api_request", "user_prompt", "hook_registered", "api_request"]
    batch = read(*[line(claude(name, n)) for n, name in enumerate(names)])
    assert batch.events["source_event_name"].to_list() == names


def test_the_number_of_records_converted_together_does_not_change_the_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line(claude(name, n, n=n)) for n in range(21) for name in ("hook", "compaction")]
    whole = read(*lines)
    monkeypatch.setattr(reader, "_RECORDS_PER_CONVERSION", 3)
    pieces = read(*lines)
    assert pieces.events.equals(whole.events)
    assert (pieces.counts, pieces.names) == (whole.counts, whole.names)


def test_a_resource_value_is_used_where_a_record_has_none() -> None:
    """An empty value counts as none."""
    records = [claude("compaction", n) for n in range(3)]
    for record, team in zip(records, ("", "mine", ""), strict=True):
        record["attributes"] += attributes({"team.id": team})
    batch = read(line(*records[:2], team__id="theirs"), line(records[2]))
    assert batch.events["team_id"].to_list() == ["theirs", "mine", None]


def test_resources_with_equal_values_of_other_types_are_distinguished() -> None:
    """1, 1.0 and True are equal in Python, but their JSON texts differ."""
    records = [line(claude("compaction"), number=value) for value in (1, 1.0, True, "1")]
    kept = [json.loads(text)["number"] for text in read(*records).events["attributes"]]
    assert [repr(value) for value in kept] == ["1", "1.0", "True", "'1'"]


def test_attributes_of_the_resource_come_first_and_give_way_to_those_of_the_record() -> None:
    plain, same = claude("compaction"), claude("compaction")
    plain["attributes"] += attributes({"own": "1"})
    same["attributes"] += attributes({"own": "1", "b": "mine"})
    events = read(line(plain, a="x", b="theirs"), line(same, a="x", b="theirs")).events
    assert events["attributes"].to_list() == [
        '{"a":"x","b":"theirs","own":"1"}',
        '{"a":"x","b":"mine","own":"1"}',
    ]


@pytest.mark.parametrize("order", [*permutations([{"a": "1"}, {"a": "2"}, {"b": "1"}])])
def test_the_last_of_a_repeated_key_counts_in_every_shape(order: Any) -> None:
    record = claude("compaction")
    record["attributes"] += [each for values in order for each in attributes(values)]
    last = [values["a"] for values in order if "a" in values][-1]
    assert json.loads(read_one(line(record))["attributes"]) == {"a": last, "b": "1"}


@pytest.mark.parametrize(
    ("name", "expected"), [("gen_ai.choice", "choice"), ("src/main.rs:7", None), (7, None)]
)
def test_a_top_level_name_is_used_only_if_it_is_one_of_the_conventions(
    name: object, expected: str | None
) -> None:
    record = {**claude("x"), "body": {"kvlistValue": {"values": []}}, "eventName": name}
    record["attributes"] = attributes({"session.id": "s"})
    foreign = json.dumps(request([record], scope="any")).encode()
    assert read_one(foreign, keep_unknown_events=True)["source_event_name"] == expected


RECORDS = st.builds(
    lambda name, second, values: claude(name, second, **values),
    st.sampled_from(["user_prompt", "tool_result", "tool_decision", "api_request", "hook", "x"]),
    st.integers(0, 3),
    st.dictionaries(
        st.sampled_from(
            "session__id organization__id masque masque__name decision decision_type tool_name"
            " tool_input duration_ms total_duration_ms success cost_usd input_tokens prompt error k"
            " service__version event__timestamp event__name command_source".split()
        ),
        st.sampled_from(
            ["", "a", "true", "-1", "5", 5, -1, 0.5, True, "<REDACTED>", "Exit code 1", "builtin"]
        )
        | st.just([]),
        max_size=6,
    ),
)


@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_records_read_together_are_the_same_events_as_each_alone(
    records: list[dict[str, Any]],
) -> None:
    together = read(line(*records, team__id="t", k="v"))
    alone = [read(line(record, team__id="t", k="v")) for record in records]
    ignored = ["source_offset", "event_id"]  # equal ones of a request are different events
    assert together.events.drop(ignored).equals(
        pl.concat([each.events for each in alone]).drop(ignored)
    )
    for count in ("value_anomalies", "time_anomalies", "unattributed", "repeated_records"):
        total = sum(getattr(each.counts, count) for each in alone)
        assert getattr(together.counts, count) == total


def test_rows_of_the_columns_that_a_dialect_uses_give_the_same_events() -> None:
    whole_rows = [replace(each, uses=None) for each in DIALECTS]
    lines = list(mutated_lines(Random(1), 500))  # noqa: S311 - reproducible mutations
    assert read(*lines).events.equals(read(*lines, dialects=whole_rows).events)


@example([claude("user_prompt", command_source=each) for each in ("builtin", "custom")])
@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_rows_of_few_columns_give_the_same_events_of_any_attributes(
    records: list[dict[str, Any]],
) -> None:
    whole_rows = [replace(each, uses=None) for each in DIALECTS]
    together = line(*records, team__id="t")
    assert read(together).events.equals(read(together, dialects=whole_rows).events)
