"""Ten thousand mutated lines, from the file to the scores: no crash, and no lost good line."""

import json
from bisect import bisect_right
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.quarantine.retry import Retry
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.fuzz import mutated_lines
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import claude, line


def good(number: int) -> bytes:
    """Return a good line, which must not be lost after any mutated one."""
    return line(claude("user_prompt", number, n=number, session__id="a good session"))


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 200), pytest.param(2, 10_000, marks=pytest.mark.slow)]
)
def test_mutated_lines_are_counted_and_no_good_line_is_lost(
    tmp_path: Path, seed: int, count: int
) -> None:
    mutated = list(mutated_lines(seeded(seed), count))
    content = b"".join(bad + b"\n" + good(number) for number, bad in enumerate(mutated))
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", content)
        counts = workplace.ingest().counts
        blank = sum(not line.strip() for line in mutated)
        whole = 2 * count - blank
        # What is left of a broken line may be several documents, each with a broken rest.
        assert (counts.bytes, min(counts.lines, whole)) == (len(content), whole)
        assert counts.lines <= whole + count / 200
        assert all(number >= 0 for number in asdict(counts).values())
        # The test is meaningful only with many broken lines and many valid but odd ones.
        assert counts.quarantined > count / 5
        assert counts.value_anomalies + counts.time_anomalies > count / 50

        landed = workplace.landed()
        assert landed.height == counts.events
        kept = landed.filter(pl.col("session_id") == "a good session")["attributes"]
        assert Counter(json.loads(line)["n"] for line in kept) == Counter(range(count))

        entries = workplace.quarantined()
        assert entries["lines"].sum() == counts.quarantined  # equal lines are one entry
        assert (entries["reason"].str.len_chars() > 0).all()
        starts = offsets(mutated)
        for offset in entries["offset"]:  # of a mutated line, or within it
            number = bisect_right(starts, offset) - 1
            assert offset < starts[number] + len(mutated[number])

        assert {type(result) for result in workplace.build()} == {DateBuilt}
        assert workplace.events().filter(pl.col("session_id") == "a good session").height == count

        # Without a fix, a retry has the same result.
        report = Retry(workplace.stores, lambda: NOW).run()
        assert (report.resolved, report.events) == (0, 0)
        assert len(report.unresolved) == entries.height
        assert IngestBatches(workplace.ledger).totals() == counts


def offsets(mutated: list[bytes]) -> list[int]:
    """Return the offset of each mutated line."""
    found, offset = [], 0
    for number, bad in enumerate(mutated):
        found.append(offset)
        offset += len(bad) + 1 + len(good(number))
    return found
