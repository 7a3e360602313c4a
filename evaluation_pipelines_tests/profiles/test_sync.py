"""Registration of profile files: which dates it makes due, and what a failure leaves behind."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import concerned_labels, sync_profiles
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.lake_files import root_of
from evaluation_pipelines_tests.scorecard_builders import profile, registry
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session

A = profile(id="a", match_labels=["code"])
B = profile(id="b", match_labels=["code"])
EVERY = profile(id="every", match_labels=["*"])
MINE = """\
id: mine
version: 1
name: Mine
match_labels: ["*"]
method: heuristic
criteria:
  - id: tool_count
"""


@pytest.mark.parametrize(
    ("before", "after", "labels"),
    [
        ([A], [A], set()),
        ([A], [], {"code"}),
        ([A], [A, B], {"code"}),
        ([A], [A, EVERY], {"code", "*"}),
        ([A], [A.model_copy(update={"match_labels": ["ops"]})], {"code", "ops"}),
        ([A], [A.model_copy(update={"enabled": False})], {"code"}),
        # A new version is for sessions that end from now on ...
        ([A], [A, A.model_copy(update={"version": 2})], set()),
        # ... unless it decides which of two profiles is the best match ...
        ([A, B], [A, B, B.model_copy(update={"version": 2})], {"code"}),
        # ... or moves the limit of quality risk.
        ([A], [A.model_copy(update={"quality_risk_fraction": 0.9})], {"code"}),
    ],
)
def test_labels_whose_sessions_are_scored_otherwise(
    before: list[object], after: list[object], labels: set[str]
) -> None:
    assert concerned_labels(registry(*before), registry(*after)) == labels  # type: ignore[arg-type]


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", session("a"))
        workplace.ingest()
        workplace.build()
        yield workplace


def write(workplace: Workplace, text: str = MINE) -> None:
    folder = workplace.settings.profiles_dir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_text(text)


def test_a_date_whose_sessions_are_damaged_is_due_with_a_new_profile(built: Workplace) -> None:
    (part,) = built.lake.parts(AGENT_SESSIONS)
    (root_of(built.lake) / part.path).unlink()
    write(built)
    sync_profiles(built.stores, NOW)
    known = {each.profile.id for each in ProfileStore(built.ledger).registry().newest()}
    assert "mine" in known
    due = [each.session_date for each in RebuildQueue(built.ledger).pending(NOW)]
    assert due == [date(2026, 6, 1)]
