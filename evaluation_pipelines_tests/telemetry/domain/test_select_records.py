"""Selection of single records of a line, by their index in the quarantine."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import select_records
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.world import claude, request

LARGE = claude("compaction", 1, **{f"a{n}": n for n in range(101)})
"""Record with 103 attributes, three more than the limit in these tests."""


def names(line: bytes, **settings: Any) -> list[str]:
    """Return the event names of a line."""
    return read(line, **settings).events["source_event_name"].to_list()


@pytest.mark.parametrize(
    "document",
    [
        request([claude("user_prompt"), LARGE, claude("hook"), LARGE]),
        # A broken record, a broken scope and a broken resource are one record each.
        request([claude("user_prompt"), 5, LARGE, claude("hook")]),  # type: ignore[list-item]
        {"resourceLogs": [7, *request([claude("user_prompt"), LARGE])["resourceLogs"]]},
        # The index continues over the requests of an array.
        [request([LARGE, claude("hook")]), request([claude("hook"), LARGE])],
        [request([5, LARGE]), {"foo": 1}, request([LARGE, 6])],  # type: ignore[list-item]
        # So is what is no request.
        [request([LARGE]), 5, None, request([claude("hook"), LARGE])],
    ],
)
def test_the_indices_in_the_quarantine_select_the_same_records(document: object) -> None:
    line = json.dumps(document).encode()
    for each in read(line).quarantined:
        if each.record_index is None:
            continue
        selected = select_records(line, [each.record_index])
        (again,) = read(selected).quarantined
        assert (again.record_index, again.reason) == (0, each.reason)
        if "attributes" in each.reason:
            assert names(selected, max_attributes=200) == ["compaction"]
    indices = [each.record_index for each in read(line).quarantined]
    assert len(set(indices)) == len(indices) > 0


def test_several_records_keep_their_order_resource_and_scope() -> None:
    line = json.dumps(
        request([claude("user_prompt"), claude("hook"), claude("tool_result")], {"team.id": "t"})
    ).encode()
    selected = select_records(line, {2, 0})
    assert names(selected) == ["user_prompt", "tool_result"]
    whole = read(line).events.filter(~read(line).events["source_event_name"].is_in(["hook"]))
    assert read(selected).events["event_id"].equals(whole["event_id"])
    assert read(selected).events["team_id"].to_list() == ["t", "t"]


def test_metrics_of_the_same_line_are_not_counted_again() -> None:
    document = {**request([claude("user_prompt")]), "resourceMetrics": []}
    line = json.dumps(document).encode()
    assert read(line).counts.skipped == 1
    assert read(select_records(line, [0])).counts.skipped == 0


def test_a_line_that_is_no_json_has_no_records() -> None:
    with pytest.raises(MalformedLineError, match="not JSON"):
        select_records(b"{", [0])


def test_a_missing_record_is_an_error() -> None:
    line = json.dumps(request([claude("user_prompt")])).encode()
    with pytest.raises(MalformedLineError, match="has no record 1, only 1"):
        select_records(line, [0, 1])
