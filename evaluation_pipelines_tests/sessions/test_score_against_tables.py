"""The score of files in memory against the stored tables, on random sessions of every shape."""

import io
from pathlib import Path
from random import Random

import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.sessions.domain.find_session import session_rows
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines_tests.sessions.odd_sessions import odd_session, other_programs
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.workplace import open_workplace

SESSIONS_PER_ROUND = 50


@pytest.mark.parametrize(("seed", "rounds"), [(1, 3), pytest.param(2, 200, marks=pytest.mark.slow)])
def test_files_score_in_memory_as_their_tables_do(tmp_path: Path, seed: int, rounds: int) -> None:
    """10,000 sessions in the slow one: in one to four ingests, builds between them or not."""
    random = seeded(seed)
    for number in range(rounds):
        sessions = [odd_session(random, each) for each in range(SESSIONS_PER_ROUND)]
        lines = [each for session in sessions for each in session] + [other_programs()]
        random.shuffle(lines)
        compare(tmp_path / str(number), lines, random)


def compare(folder: Path, lines: list[bytes], random: Random) -> None:
    cuts = sorted(random.sample(range(len(lines)), random.randint(0, 3)))
    ends = zip([0, *cuts], [*cuts, len(lines)], strict=True)
    contents = [b"".join(lines[start:end]) for start, end in ends]
    with open_workplace(folder, shards=random.choice((1, 4))) as workplace:
        for number, content in enumerate(contents):
            workplace.land(f"{number}.jsonl", content)
            workplace.ingest()
            if random.random() < 0.5:
                workplace.build()
        assert {type(each) for each in workplace.build()} <= {DateBuilt}
        stored = session_rows(workplace.sessions(), workplace.performance())
        files = [(f"{n}.jsonl", io.BytesIO(content)) for n, content in enumerate(contents)]
        scored = score_files(files, workplace.settings).sessions
    key = ("organization_id", "session_key")
    assert [[row[name] for name in key] for row in scored] == [
        [row[name] for name in key] for row in stored
    ]
    for mine, theirs in zip(scored, stored, strict=True):
        different = {
            each: (mine[each], theirs[each]) for each in mine if mine[each] != theirs[each]
        }
        assert not different, [mine[name] for name in key]
