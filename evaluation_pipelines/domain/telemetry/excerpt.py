"""A part of a line: some of its log records, to be read again by themselves."""

import json
from collections.abc import Collection
from typing import Any

from evaluation_pipelines.domain.telemetry.otlp import (
    MalformedLineError,
    parse_leniently,
    records_of,
)


def only_records(line: bytes, places: Collection[int]) -> bytes:
    """An OTLP request with those records of a line that stand at some places, counted from 0.

    Each keeps its resource and scope. Of everything else in the line there is nothing.

    Raises:
        MalformedLineError: The line as a whole cannot be read, or has no record at one of them.
    """
    records = [found for request in parse_leniently(line) for found in records_of(request)]
    if missing := [place for place in places if place >= len(records)]:
        raise MalformedLineError(f"holds no record {missing[0]}, only {len(records)}")
    chosen = [_alone(*records[place]) for place in sorted(places)]
    return json.dumps({"resourceLogs": chosen}).encode()


def _alone(resource: Any, scope: Any, record: Any) -> dict[str, Any]:
    return {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]}
