"""What is made of the current parts of the lake: again when they change, and only then."""

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.views.sessions import OfVersion
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import DAY_S, session


def test_a_value_is_made_again_when_a_part_becomes_current(workplace: Workplace) -> None:
    asked: list[int] = []

    def count(lake: Lake) -> int:
        asked.append(len(lake.parts(AGENT_SESSIONS)))
        return asked[-1]

    lake, value = workplace.lake, OfVersion(count)
    assert value.of(Lake(lake.store, None)) == 0  # nothing was ever written
    fill(workplace, session("one"), session("two", DAY_S))
    assert [value.of(lake) for _ in range(3)] == [2, 2, 2]
    before = lake.snapshot()
    assert before.version() == lake.version()
    workplace.land("more.jsonl", session("three", DAY_S * 2))
    workplace.ingest()
    workplace.build()
    assert value.of(lake) == 3
    assert value.of(before) == 2
    assert asked == [0, 2, 3, 2]
