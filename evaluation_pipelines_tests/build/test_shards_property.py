"""Sessions have the same rows in all tables from 1, 4 and 16 shards.

Genuine and generated sessions, with judge scores in every state and with overrides.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.build import DAILY_TABLES, DateBuilt
from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, CONTENT_KEY
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import read_session_lookup
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.build.two_dates import build
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, started
from evaluation_pipelines_tests.sessions.odd_sessions import BEGINS, odd_session
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.lake_files import sorted_rows
from evaluation_pipelines_tests.world.ledger import NOON

DATE_OF_SAMPLES_S = 173 * DAY_S
"""2026-11-21, when the samples were recorded, as an offset from the noon of the builders."""

JUDGED = ("completed", "failed", "pending", None)
NO_SHRINKING = (Phase.explicit, Phase.generate)
"""A smaller seed is no simpler."""


@settings(max_examples=1, phases=NO_SHRINKING)
@given(st.integers(0, 2**32 - 1))
def test_two_dates_have_the_same_rows_from_any_number_of_shards(seed: int) -> None:
    compared(seed, sessions=8, begins=(DATE_OF_SAMPLES_S, DATE_OF_SAMPLES_S + 60), counts=(7,))


@pytest.mark.slow
@settings(max_examples=20, phases=NO_SHRINKING)
@given(st.integers(0, 2**32 - 1))
def test_several_dates_have_the_same_rows_from_any_number_of_shards(seed: int) -> None:
    compared(seed, sessions=12, begins=BEGINS)


def compared(
    seed: int, sessions: int, begins: Sequence[int], counts: Sequence[int] = (4, 16)
) -> None:
    """Build the same landed events and scorings in one shard and in several."""
    random = seeded(seed)
    lines = [line for n in range(sessions) for line in odd_session(random, n, begins)]
    lines += map(reading_session, range(48))
    with TemporaryDirectory() as folder:
        prepare(Path(folder) / "landed", b"".join(lines))
        whole = tables_built(Path(folder), 1)
        assert_all_row_kinds(whole)
        for count in counts:
            for name, rows in tables_built(Path(folder), count).items():
                assert rows.equals(whole[name]), (name, count)


def reading_session(number: int) -> bytes:
    """A session with other outcomes than the next one; every second is of the day before."""
    failed = number % 7
    begin, calls = DATE_OF_SAMPLES_S - number % 2 * DAY_S, ["Read!"] * failed + ["Read"] * 8
    return session(f"reading-{number}", begin, calls=calls[:8], prompt="text")


def prepare(folder: Path, generated: bytes) -> None:
    with open_workplace(folder) as workplace:
        for path in sorted(SAMPLES.glob("*/*.jsonl")):
            workplace.land(f"{path.parent.name}-{path.name}", path.read_bytes())
        workplace.land("generated.jsonl", generated)
        workplace.ingest()
        build(workplace, tables=[AGENT_EVENTS.name, AGENT_SESSIONS.name])
        score(workplace)
        correct(workplace)


def score(workplace: Workplace) -> None:
    """Give every second session with a matching profile a scoring in one of the states."""
    columns = (*CONTENT_KEY, "session_id", "session_date")
    rows = workplace.sessions().select(columns).sort("organization_id", "session_key")
    profile = sync_profiles(workplace.stores, NOW).registry.find("code-hybrid").profile
    for number, row in enumerate(rows.iter_rows(named=True)):
        if JUDGED[number % 4] is not None:
            version: dict[str, Any] = {
                "judge_profile_id": profile.id,
                "judge_profile_version": profile.version,
            }
            scoring = started(workplace.ledger, score_id=f"score-{number}", **row, **version)
            end(ScoreStore(workplace.ledger), scoring, JUDGED[number % 4])


def end(store: ScoreStore, scoring: Score, status: str | None) -> None:
    if status == "completed":
        store.complete(scoring.score_id, DONE, NOON)
    elif status == "failed":
        store.fail(scoring.score_id, Failure("refused", retriable=False), NOON)


def correct(workplace: Workplace) -> None:
    """Override the score of every third session."""
    sessions = workplace.sessions().sort("organization_id", "session_key")[::3]
    sync_profiles(workplace.stores, NOW)
    lookup = read_session_lookup(workplace.stores, sessions["session_key"].to_list())
    for organization, key in sessions.select("organization_id", "session_key").iter_rows():
        verdict = HumanVerdict(20, "Ada", "because")
        target = lookup.find(SessionName(key, organization))
        override(workplace.stores, target, verdict, "person", NOW)


def tables_built(folder: Path, count: int) -> dict[str, pl.DataFrame]:
    """Build a copy of what was landed in shards; return the rows of all daily tables."""
    shutil.copytree(folder / "landed", folder / str(count))
    with open_workplace(folder / str(count), shards=count) as workplace:
        built = build(workplace, *workplace.lake.partitions(AGENT_SESSIONS))
        assert all(isinstance(result, DateBuilt) for result in built)
        return {
            table.table.name: sorted_rows(workplace.lake, table.table) for table in DAILY_TABLES
        }


def assert_all_row_kinds(tables: dict[str, pl.DataFrame]) -> None:
    """Assert that no table is empty, and that scores of all kinds are compared."""
    assert all(not rows.is_empty() for rows in tables.values())
    assert set(tables["judge_scores"]["status"]) == {"completed", "failed", "pending"}
    assert tables["session_performance"]["composite"].n_unique() > 5
    sources = set(tables["session_evaluations"]["effective_source"])
    assert sources >= {"override", "scorecard", "judge"}
