"""What the terminal program prints of telemetry that was not, or not simply, read."""

from collections.abc import Iterator

from evaluation_pipelines.cli.terminal import complain, counted, one_line
from evaluation_pipelines.domain.telemetry.counts import IngestCounts
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.score import Scored

_DEFECTS_SHOWN = 5


def print_unread(scored: Scored, settings: Settings) -> None:
    """What was not read, and why there may be no session at all."""
    shown, others = scored.quarantined[:_DEFECTS_SHOWN], scored.quarantined[_DEFECTS_SHOWN:]
    for name, line in shown:
        complain(f"warning: {one_line(name)}, byte {line.offset}: not read: {line.reason}")
    if others:
        complain(f"warning: and {counted(len(others), 'more that was', 'more that were')} not read")
    if not scored.sessions:
        for what in what_is_odd(scored.counts, settings):
            complain(f"warning: {what}")


def what_is_odd(counts: IngestCounts, settings: Settings) -> Iterator[str]:
    """What of the telemetry is no event, or was mended, in numbers."""
    for what, number in (
        ("attribution lines", counts.attribution_lines),
        ("metrics and traces, not used", counts.skipped),
        ("records of agents that are not understood", counts.unknown_records),
        ("records that repeat another one", counts.repeated_records),
        ("records without a session", counts.unattributed),
        ("impossible times, replaced by the time observed", counts.time_anomalies),
        ("impossible values, now null", counts.value_anomalies),
        (f"events before {settings.start_date}, filed under that date", counts.out_of_range),
    ):
        if number:
            yield f"{what}: {number}"
