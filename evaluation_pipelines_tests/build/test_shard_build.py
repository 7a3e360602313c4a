"""What a build sends to workers in other processes."""

import pickle
import re
from datetime import date
from pathlib import Path
from socket import gethostname

import pytest

from evaluation_pipelines.build.shard_build import BuildContext, ShardRequest, build_shard
from evaluation_pipelines.engine import EngineError
from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.storage.parts import ALL_BUCKETS
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import session

REQUEST = ShardRequest([date(2026, 6, 1)], ALL_BUCKETS, NOW, is_large=False)


def test_a_worker_that_cannot_open_the_stores_says_so_when_it_works(tmp_path: Path) -> None:
    """Not when it receives them: the engine would take that for a worker that was killed."""
    with open_workplace(tmp_path) as workplace:
        sent = pickle.dumps(BuildContext(workplace.stores, [AGENT_EVENTS.name]))
        workplace.land("logs.jsonl", session("s1"))
        workplace.ingest()
    ledger = tmp_path / "ledger.db"
    ledger.rename(tmp_path / "away.db")
    received = pickle.loads(sent)  # noqa: S301 - sent above
    said = rf"The worker on \S+ cannot open the stores: There is no ledger {re.escape(str(ledger))}"
    with pytest.raises(EngineError, match=said):
        build_shard(received, REQUEST)
    (tmp_path / "away.db").rename(ledger)
    (part,) = build_shard(received, REQUEST).parts
    assert (part.table_name, part.row_count) == (AGENT_EVENTS.name, 2)


def test_a_worker_on_another_machine_is_refused_a_ledger_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have another file under that name; and SQLite is not for network file systems."""
    with open_workplace(tmp_path) as workplace:
        sent = pickle.dumps(BuildContext(workplace.stores, [AGENT_EVENTS.name]))
        received = pickle.loads(sent)  # noqa: S301 - sent above
        monkeypatch.setattr("evaluation_pipelines.build.shard_build.gethostname", lambda: "node7")
        said = rf"worker on node7 cannot use .* a file on {gethostname()}\. .*=postgresql\+psycopg:"
        with pytest.raises(EngineError, match=said):
            build_shard(received, REQUEST)
