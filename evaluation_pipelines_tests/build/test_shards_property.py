"""Generated sessions have the same rows in all tables from 1, 4 and 16 shards."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines_tests.build.two_dates import build
from evaluation_pipelines_tests.judging.ledger.score_builders import started
from evaluation_pipelines_tests.lake_files import sorted_rows
from evaluation_pipelines_tests.sessions.odd_sessions import odd_session
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

SESSIONS = 12


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_generated_sessions_have_the_same_rows_from_any_number_of_shards(seed: int) -> None:
    compare(seed)


def compare(seed: int) -> None:
    random = seeded(seed)
    content = b"".join(line for n in range(SESSIONS) for line in odd_session(random, n))
    whole = tables_built(content, 1)
    assert not whole["judge_scores"].is_empty()
    for count in (4, 16):
        for name, rows in tables_built(content, count).items():
            assert rows.equals(whole[name]), (name, count)


def tables_built(content: bytes, count: int) -> dict[str, pl.DataFrame]:
    with TemporaryDirectory() as folder, open_workplace(Path(folder), shards=count) as workplace:
        workplace.land("logs.jsonl", content)
        workplace.ingest()
        workplace.build()
        start_scorings(workplace)
        build(workplace, *workplace.lake.partitions(DAILY_TABLES[0].table))
        return {
            # The id of a landing file contains its inode.
            each.table.name: sorted_rows(workplace.lake, each.table).drop(
                "source_file_id", strict=False
            )
            for each in DAILY_TABLES
        }


def start_scorings(workplace: Workplace) -> None:
    """Start a scoring of every second session, with an id that does not change."""
    columns = ("organization_id", "session_key", "session_id", "content_hash", "session_date")
    rows = workplace.sessions().select(columns).sort("organization_id", "session_key")
    for number, row in enumerate(rows.iter_rows(named=True)):
        if number % 2 == 0:
            started(workplace.ledger, score_id=f"score-{number}", **row)
