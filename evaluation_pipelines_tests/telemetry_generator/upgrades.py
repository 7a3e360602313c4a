"""Upgrades of libraries, by a model that gets worse: work that the regression watch warns of.

The team's own days are too few for the watch, and its models stay as they are. This is the least
that it needs: some weeks of small sessions, of a label and a model that nothing else has, so that
the comparison of the team's models stays what it is.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from random import Random

from evaluation_pipelines_tests.telemetry_generator.collector import Collector
from evaluation_pipelines_tests.telemetry_generator.files import RotatingFile
from evaluation_pipelines_tests.telemetry_generator.ids import uuid_text
from evaluation_pipelines_tests.telemetry_generator.plan import (
    DAY_MS,
    HOUR_MS,
    Fate,
    Manner,
    SessionPlan,
)
from evaluation_pipelines_tests.telemetry_generator.story import Storyteller
from evaluation_pipelines_tests.telemetry_generator.team import BASELINE, DEVELOPERS, Model
from evaluation_pipelines_tests.telemetry_generator.truth import Delivery

LABEL = "upgrade"
DOGWOOD = Model("dogwood-3", 0.03, 4.0, 2000, 10_000, 200, 2500)
WORSE = replace(DOGWOOD, tool_failure=0.3)
"""The same model in the last week: it fails often, and repeats what failed in every session."""

PEOPLE = tuple(developer for developer in DEVELOPERS if developer.name in {"cleo", "dan", "eva"})

GOOD_DAYS, WORSE_DAYS = (*range(64, 28, -4), *range(14, 9, -1)), range(7, 0, -2)
"""Days before the end: 14 with the usual model, which is the least the watch takes, and a week.

Those on which the team works, too, cost less to build. The last 28 hold fewer than 30 sessions, so
that the model is not ranked: there is none to compare it with.
"""


def write_upgrades(folder: Path, *, seed: int, end: date) -> None:
    """Write ``upgrades.jsonl`` with sessions of nine weeks, the last one before ``end`` (UTC).

    The same arguments give the same bytes.
    """
    random = Random(f"upgrades {seed} {end}")  # noqa: S311 - it has to be repeatable, not secret
    end_ms = int(datetime.combine(end, time(), UTC).timestamp()) * 1000
    with RotatingFile(folder, "upgrades") as file:
        collector = Collector(file, Delivery())
        for plan in _plans(random, end_ms):
            collector.write_until(plan.start_ms)
            collector.receive(Storyteller(random, plan, 1.0, end_ms).tell().requests)
        collector.finish()


def _plans(random: Random, end_ms: int) -> Iterator[SessionPlan]:
    """One session of each of the people on each day, in the morning."""
    for ago in (*GOOD_DAYS, *WORSE_DAYS):
        is_worse = ago in WORSE_DAYS
        model = WORSE if is_worse else DOGWOOD
        for number, developer in enumerate(PEOPLE):
            yield SessionPlan(
                session_id=uuid_text(random),
                developer=developer,
                label=LABEL,
                start_ms=end_ms - ago * DAY_MS + (8 + number) * HOUR_MS,
                elapsed=0.0,
                prompts=1,
                models=(model, model),
                masque=BASELINE,
                other=BASELINE,
                manner=Manner.LABEL,
                fate=Fate.LOOPING if is_worse else Fate.PLAIN,
            )
