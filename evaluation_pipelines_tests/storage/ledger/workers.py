"""What the processes of the concurrency tests do; spawned, so they must be importable."""

from multiprocessing.synchronize import Barrier
from typing import Any

from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.ledger.ingest_batches import PositionMovedError, SourceFiles
from evaluation_pipelines_tests.world.ledger import (
    MARCH_1,
    add_file,
    batch,
    commit,
    new_part,
    session,
)


def open_at_once(url: str, start: Barrier, results: Any) -> None:
    """Open a ledger at the same moment as others and use it."""
    start.wait()
    ledger = open_ledger(url)
    results.put(SourceFiles(ledger).all())
    ledger.close()


def commit_own_file(url: str, file_id: str, batches: int) -> None:
    """Commit batches of one file; all workers share the sessions, the date and the name."""
    ledger = open_ledger(url)
    add_file(ledger, file_id)
    for number in range(batches):
        commit(
            ledger,
            batch(
                number * 10,
                number * 10 + 10,
                file_id=file_id,
                parts=(new_part(f"{file_id}-{number}", MARCH_1),),
                sessions=(session(f"s{number}"), session(f"{file_id}-{number}")),
                counts=IngestCounts(bytes=10, lines=1, events=2),
                names={("codex", "noise"): 1},
            ),
        )
    ledger.close()


def commit_shared_file(url: str, batches: int) -> int:
    """Commit the same batches of file f1 as others at once; returns how many were ours."""
    ledger = open_ledger(url)
    won = 0
    for number in range(batches):
        try:
            commit(ledger, batch(number, number + 1, counts=IngestCounts(events=1)))
            won += 1
        except PositionMovedError:
            pass
    ledger.close()
    return won
