"""Made-up sessions of every other agent: what the pipeline finds is what really happened."""

from datetime import UTC, date, datetime
from pathlib import Path

from evaluation_pipelines.schemas import TOOL_REPORTS
from evaluation_pipelines_tests.telemetry_generator.guests import GuestTruth, write_guests
from evaluation_pipelines_tests.telemetry_generator.span_wordings import SPAN_WORDINGS
from evaluation_pipelines_tests.workplace import Workplace

END = date(2026, 11, 21)


def write(folder: Path, seed: int = 1) -> list[GuestTruth]:
    folder.mkdir(parents=True, exist_ok=True)
    return write_guests(folder, seed=seed, end=END, days=4, sessions_each=6)


def write_programs(folder: Path) -> list[GuestTruth]:
    folder.mkdir(parents=True, exist_ok=True)
    return write_guests(
        folder, seed=1, end=END, days=4, sessions_each=6, wordings=SPAN_WORDINGS, name="programs"
    )


def test_every_session_of_every_agent_is_found_as_it_was(workplace: Workplace) -> None:
    told = write(workplace.landing.root)
    counts = workplace.ingest().counts
    assert (counts.quarantined, counts.unknown_records, counts.unattributed) == (0, 0, 0)
    assert (counts.value_anomalies, counts.time_anomalies) == (0, 0)
    assert counts.events + counts.repeated_records == sum(truth.records for truth in told)
    # Gemini tells each API call a second time.
    twice = sum(truth.api_requests for truth in told if truth.source_cli == "gemini_cli")
    assert counts.repeated_records == twice > 0
    workplace.build()
    assert len(told) == 5 * 6
    _assert_found(workplace, told)


def test_every_session_of_spans_is_found_as_it_was(workplace: Workplace) -> None:
    told = write_programs(workplace.landing.root)
    counts = workplace.ingest().counts
    assert (counts.quarantined, counts.unknown_records, counts.unattributed) == (0, 0, 0)
    workplace.build()
    assert len(told) == 3 * 6
    _assert_found(workplace, told)


def _assert_found(workplace: Workplace, told: list[GuestTruth]) -> None:
    found = {row["session_id"]: row for row in workplace.sessions().iter_rows(named=True)}

    lake = workplace.lake
    reports = lake.read(TOOL_REPORTS, lake.partitions(TOOL_REPORTS))
    wasted = dict(reports.select("session_id", "wasted_calls").iter_rows())

    assert len(found) == len(told)
    assert wasted == {guest_truth.session_id: guest_truth.tools_wasted for guest_truth in told}
    assert sum(filter(None, wasted.values())) > 0
    for truth in told:
        row = found[truth.session_id]
        same = ("source_cli", "prompts", "tools_ok", "tools_failed", "tools_denied", "api_requests")
        sums = ("input_tokens", "cache_read_tokens", "output_tokens")
        assert {name: row[name] for name in (*same, *sums)} == {
            name: getattr(truth, name) for name in (*same, *sums)
        }, truth.source_cli
        assert row["models"] == [truth.model]
        assert row["started_at"] == datetime.fromtimestamp(truth.started_ms / 1000, UTC)
        assert row["ended_at"] == datetime.fromtimestamp(truth.ended_ms / 1000, UTC)
        assert row["session_date"] == row["started_at"].date()
        assert row["status"] == "completed"
