"""Single records of a line, by the places under which the quarantine names them."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.otlp import MalformedLineError, only_records
from evaluation_pipelines_tests.otlp_builders import claude, request
from evaluation_pipelines_tests.telemetry.domain.reading import read

LARGE = claude("compaction", 1, **{f"a{n}": n for n in range(101)})
"""103 attributes, three more than the readers of these tests take."""


def names(line: bytes, **settings: Any) -> list[str]:
    """Names of the events of a line."""
    return read(line, **settings).events["source_event_name"].to_list()


@pytest.mark.parametrize(
    "document",
    [
        request([claude("user_prompt"), LARGE, claude("hook"), LARGE]),
        # A broken record, a broken scope and a broken resource stand for one record each.
        request([claude("user_prompt"), 5, LARGE, claude("hook")]),  # type: ignore[list-item]
        {"resourceLogs": [7, *request([claude("user_prompt"), LARGE])["resourceLogs"]]},
        # The places go on from request to request of an array.
        [request([LARGE, claude("hook")]), request([claude("hook"), LARGE])],
        [request([5, LARGE]), {"foo": 1}, request([LARGE, 6])],  # type: ignore[list-item]
    ],
)
def test_the_places_in_the_quarantine_find_the_records_again(document: object) -> None:
    line = json.dumps(document).encode()
    for each in read(line).quarantined:
        if each.record_index is None:
            continue
        alone = only_records(line, [each.record_index])
        (again,) = read(alone).quarantined
        assert (again.record_index, again.reason) == (0, each.reason)
        if "attributes" in each.reason:
            assert names(alone, max_attributes=200) == ["compaction"]
    places = [each.record_index for each in read(line).quarantined]
    assert len(set(places)) == len(places) > 0


def test_several_records_keep_their_order_resource_and_scope() -> None:
    line = json.dumps(
        request([claude("user_prompt"), claude("hook"), claude("tool_result")], {"team.id": "t"})
    ).encode()
    alone = only_records(line, {2, 0})
    assert names(alone) == ["user_prompt", "tool_result"]
    whole = read(line).events.filter(~read(line).events["source_event_name"].is_in(["hook"]))
    assert read(alone).events["event_id"].equals(whole["event_id"])
    assert read(alone).events["team_id"].to_list() == ["t", "t"]


def test_metrics_beside_the_records_are_not_counted_again() -> None:
    document = {**request([claude("user_prompt")]), "resourceMetrics": []}
    line = json.dumps(document).encode()
    assert read(line).counts.skipped == 1
    assert read(only_records(line, [0])).counts.skipped == 0


def test_a_line_that_is_no_json_has_no_records() -> None:
    with pytest.raises(MalformedLineError, match="not JSON"):
        only_records(b"{", [0])


def test_a_record_that_is_not_there_is_never_taken_for_read() -> None:
    line = json.dumps(request([claude("user_prompt")])).encode()
    with pytest.raises(MalformedLineError, match="holds no record 1, only 1"):
        only_records(line, [0, 1])
