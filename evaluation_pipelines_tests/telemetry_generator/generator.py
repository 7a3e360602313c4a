"""Telemetry of a made-up team, as a collector would have written it, and the truth about it."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random

from evaluation_pipelines_tests.telemetry_generator.collector import Collector
from evaluation_pipelines_tests.telemetry_generator.files import RotatingFile
from evaluation_pipelines_tests.telemetry_generator.otlp import iso_time
from evaluation_pipelines_tests.telemetry_generator.plan import Planner
from evaluation_pipelines_tests.telemetry_generator.story import Story, Storyteller
from evaluation_pipelines_tests.telemetry_generator.truth import Delivery, SessionTruth, Truth

ROTATE_BYTES = 20_000_000
"""A collector's file with more is renamed and a new one begun."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much telemetry there is; about 45 MB unless told otherwise.

    Attributes:
        days: How many days it covers.
        sessions_per_day: Sessions on a day, on average.
        scale: Multiplies the tool calls of a prompt: sessions of a real fleet are as long as those
            of scale 5.
    """

    days: int = 14
    sessions_per_day: float = 25.0
    scale: float = 1.0

    @classmethod
    def of_bytes(cls, target_bytes: int, days: int = 14, scale: float = 1.0) -> "Extent":
        """As many sessions as it takes to reach about that many bytes."""
        session_bytes = 31_500 + 93_200 * scale
        return cls(days, target_bytes / session_bytes / days, scale)


DEMO = Extent()


def write_telemetry(
    folder: Path,
    *,
    seed: int,
    end: date,
    extent: Extent = DEMO,
    rotate_bytes: int | None = ROTATE_BYTES,
) -> Truth:
    """Write telemetry of some days into a folder.

    ``agents.jsonl`` with its rotated backups holds what a collector got, and
    ``sessions.attribution.jsonl`` tells who wore which masque where the records do not. They
    appear when they are complete. The same arguments give the same bytes.

    Args:
        folder: Where the files go; it is made if it is not there.
        seed: Another one gives other sessions of the same team.
        end: The day after the last one: everything happens before its midnight (UTC).
        extent: How much.
        rotate_bytes: Size at which a file is rotated; None for one file.

    Returns:
        What really happened, session by session, and what was written, in numbers.

    Raises:
        FileExistsError: telemetry is there already; it is never overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if there := next(folder.glob("[!.]*.jsonl"), None):
        raise FileExistsError(17, "telemetry is there already, choose another folder", str(there))
    random = Random(f"{seed} {end}")  # noqa: S311 - it has to be repeatable, not secret
    limit_ms = int(datetime(end.year, end.month, end.day, tzinfo=UTC).timestamp()) * 1000
    delivery, sessions = Delivery(), list[SessionTruth]()
    with (
        RotatingFile(folder, "sessions.attribution") as attribution,
        RotatingFile(folder, "agents", rotate_bytes) as logs,
    ):
        collector = Collector(logs, delivery)
        planner = Planner(random, end, extent.days)
        for plans in planner.days(round(extent.days * extent.sessions_per_day)):
            for plan in plans:
                collector.write_until(plan.start_ms)
                story = Storyteller(random, plan, extent.scale, limit_ms).tell()
                collector.receive(story.requests)
                sessions.append(story.truth)
                _write_worn(story, attribution, delivery)
        collector.finish()
    delivery.bytes = logs.written_bytes + attribution.written_bytes
    return Truth(tuple(sessions), delivery)


def _write_worn(story: Story, file: RotatingFile, delivery: Delivery) -> None:
    """One attribution line for each time that a masque was put on."""
    for worn in story.worn:
        doffed = "" if worn.doffed_ms is None else f',"doffed_at":"{iso_time(worn.doffed_ms)}"'
        line = (
            f'{{"session_id":"{story.truth.session_id}","masque":"{worn.masque}",'
            f'"donned_at":"{iso_time(worn.donned_ms)}"{doffed}}}'
        )
        file.write(line.encode(), worn.donned_ms)
        delivery.lines += 1
        delivery.attribution_lines += 1
        delivery.dons_and_doffs += 1 if worn.doffed_ms is None else 2
