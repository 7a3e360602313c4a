"""Captured telemetry of OpenCode without a plugin: all records are counted, none is scored."""

import json
from pathlib import Path

import pytest

from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.telemetry.captures import Capture
from evaluation_pipelines_tests.workplace import open_workplace

OPENCODE = Capture("opencode")
RECORDS = 416


@pytest.fixture(params=["as sent", "by a collector"])
def file(request: pytest.FixtureRequest) -> Path:
    """Return the file of one encoding."""
    return OPENCODE.file(request.param)


def test_its_log_lines_name_no_event_and_no_session(file: Path) -> None:
    """Fails for a version that sends more."""
    requests = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    attributes = [
        [pair["key"] for pair in record["attributes"]]
        for request in requests
        for resource in request["resourceLogs"]
        for record in resource["scopeLogs"][0]["logRecords"]
    ]
    assert attributes == [["fiberId"]] * RECORDS


def test_every_record_is_counted_and_none_becomes_a_session(file: Path) -> None:
    with file.open("rb") as handle:
        scored = score_files([(file.name, handle)], Settings(_env_file=None))
    assert (scored.sessions, scored.quarantined) == ([], [])
    counts = scored.counts
    assert (counts.unknown_records, counts.events) == (RECORDS, 0)
    assert (counts.bytes, counts.lines) == (file.stat().st_size, 46)


def test_an_ingest_counts_the_records_and_stores_none(file: Path, tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", file.read_bytes())
        report = workplace.ingest()
        assert (report.counts.unknown_records, report.counts.quarantined) == (RECORDS, 0)
        # Most records have no name; a body of one word is the name.
        assert IngestBatches(workplace.ledger).names() == {
            ("opencode", ""): 395,
            ("opencode", "init"): 11,
            ("opencode", "initialized"): 10,
        }
        assert workplace.build() == []
        assert workplace.landed().is_empty()
        # The file is read once.
        assert workplace.ingest().counts.lines == 0
