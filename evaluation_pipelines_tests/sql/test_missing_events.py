"""Gaps in event.sequence, per run of a process and per window."""

import pytest

from evaluation_pipelines_tests.builders import don, event, prompt
from evaluation_pipelines_tests.sql.session_queries import only_window, windows


@pytest.mark.parametrize(
    ("sequences", "missing"),
    [
        ([None, None], None),
        ([0, 1, 2], 0),
        # What came before the first event seen is not known to be missing.
        ([7, 8], 0),
        ([0, 1, 4], 2),
        ([0, None, 1], 0),
        # The same number twice is no gap.
        ([0, 1, 1, 2], 0),
        # Resumed: the next process starts at 0, or we see it from 1 on after a drop of 12.
        ([0, 1, 2, 0, 1], 0),
        ([11, 12, 13, 1, 2], 0),
        ([0, 2, 0, 3], 1 + 2),
        # A drop of 10 is an event that came late, a drop of 11 another process.
        ([3, 13, 3], 9),
        ([3, 14, 3], 10),
        ([0, 2, 1, 3], 0),
    ],
    ids=str,
)
def test_gaps_are_counted_within_each_run_of_a_process(
    sequences: list[int | None], missing: int | None
) -> None:
    rows = [event("hook", second, sequence=n) for second, n in enumerate(sequences)]

    assert only_window(rows)["missing_events"] == missing


def test_a_gap_counts_for_the_window_of_the_event_after_it() -> None:
    rows = [
        prompt(0, sequence=0),
        prompt(1, sequence=2),
        don("A", 2),
        prompt(3, sequence=5),
        don("B", 4),
        prompt(5),
    ]

    # 1 is missing before the second prompt, 3 and 4 before the third.
    assert [row["missing_events"] for row in windows(rows).values()] == [1, 2, 0]


def test_a_don_record_is_one_of_the_events_that_were_sent() -> None:
    rows = [prompt(0, sequence=0), don("A", 1, sequence=1), prompt(2, sequence=2)]

    assert [row["missing_events"] for row in windows(rows).values()] == [0, 0]


def test_absurd_numbers_stop_nothing() -> None:
    rows = [event("hook", 0, sequence=-(2**63)), event("hook", 1, sequence=2**63 - 1)]

    assert only_window(rows)["missing_events"] is None
