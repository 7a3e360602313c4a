"""Outcomes of sessions by their rules, and arms compared by them."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.outcomes import (
    RULES,
    ShareDifference,
    compare_outcomes,
    outcome_values,
    rule_of,
    sentences,
    share_difference,
)
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.runs import RUNS
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import SESSION_OUTCOMES, UTC_TIME
from evaluation_pipelines_tests.world.rows import frame

END = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    """Return a time some days after the end of the session."""
    return END + timedelta(days=number)


def row(
    kind: str, value: float | None, at: float | None, read: float, **more: Any
) -> dict[str, Any]:
    """Return a row of ``session_outcomes``; times in days after the end of the session."""
    return {
        "organization_id": "default",
        "session_key": "s",
        "kind": kind,
        "happened_at": None if at is None else day(at),
        "value": value,
        "reference": "c1",
        "source": "git",
        "read_at": day(read),
        **more,
    }


SESSIONS = pl.DataFrame(
    {"organization_id": ["default"], "session_key": ["s"], "ended_at": [END]},
    {"organization_id": pl.String, "session_key": pl.String, "ended_at": UTC_TIME},
)


def valued(kind: str, *rows: dict[str, Any], of_all: bool = False) -> tuple[float | None, bool]:
    found = outcome_values(
        frame(SESSION_OUTCOMES.schema, rows), SESSIONS, rule_of(kind), of_all=of_all
    )
    return found["value"].item(), found["is_young"].item()


MERGED = row("merged", 1, 2, 40)
OUTSIDE = {"source": "outside"}
REVERT = row("reverted", 1, 20, 40, session_key="other")
CLASH = {"session_key": "s", "source": "outside"}
LATER = row("merged", 1, 60, 60, **OUTSIDE, session_key="other")


@pytest.mark.parametrize(
    ("kind", "rows", "value", "is_young"),
    [
        ("merged", [row("merged", 1, 2, 15)], 1, False),
        ("merged", [row("merged", 1, 2, 13)], None, True),  # early, but read before the horizon
        ("merged", [row("merged", 1, 15, 20)], 0, False),  # too late
        ("merged", [row("merged", 0, None, 15)], 0, False),
        ("merged", [row("merged", 1, None, 15)], None, False),  # at an unknown time
        (
            "merged",
            [row("merged", 1, 40, 50), row("merged", 1, None, 50, reference="b")],
            None,
            False,
        ),
        # Sent once, when it happened: the source was read later, for another session.
        ("merged", [row("merged", 1, 2, 2, **OUTSIDE), LATER], 1, False),
        ("merged", [row("merged", 1, 2, 2, **OUTSIDE)], None, True),
        ("merged", [row("merged", 1, 2, 2), LATER], None, True),  # git was not read again
        ("merged", [row("merged", 1, None, 2, **OUTSIDE), LATER], 1, False),  # by day 2
        ("merged", [row("merged", 1, None, 20, **OUTSIDE), LATER], None, False),  # by day 20
        ("task_closed", [row("task_closed", 1, None, -1, **OUTSIDE)], None, False),
        ("merged", [row("merged", 0, None, 13)], None, True),
        ("merged", [row("merged", 1, -0.1, 15)], None, False),  # within the session
        ("merged", [row("merged", 0, None, 15), row("merged", 1, 3, 15, reference="b")], 1, False),
        ("merged", [MERGED, MERGED | OUTSIDE | {"value": 0.0}], None, False),  # they contradict
        ("merged", [], None, False),
        # Merged on day 2, read on day 40, no revert. Reverts of others are reported.
        ("reverted", [MERGED, row("reverted", 0, None, 40, session_key="other")], 1, False),
        ("reverted", [MERGED, row("reverted", 1, 20, 31, session_key="other")], None, True),
        ("reverted", [MERGED], None, False),  # no report of reverts
        ("reverted", [MERGED, row("reverted", None, None, 40), REVERT], None, False),
        ("reverted", [MERGED, REVERT | CLASH, row("reverted", 0, None, 40), REVERT], None, False),
        ("reverted", [MERGED, MERGED | OUTSIDE | {"value": 0.0}, REVERT], None, False),
        ("reverted", [MERGED, row("reverted", 1, 20, 40)], 0, False),
        ("reverted", [MERGED, row("reverted", 1, 33, 40)], 1, False),  # 31 days after the merge
        ("reverted", [row("merged", 1, 2, 31), row("reverted", 0, None, 31)], None, True),
        ("reverted", [row("merged", 0, None, 40)], None, False),
        ("survival_7d", [MERGED, row("survival_7d", 0.4, 9, 40)], 0.4, False),
        ("survival_7d", [row("merged", 1, 2, 8), row("survival_7d", 0.4, 9, 8)], None, True),
        # 10 lines of 0.4 and 30 of 0.8: 0.7.
        (
            "survival_7d",
            [
                MERGED,
                row("survival_7d", 0.4, 9, 40, lines=10),
                row("survival_7d", 0.8, 9, 40, lines=30, reference="b"),
            ],
            0.7,
            False,
        ),
        ("task_closed", [row("task_closed", 1, 3, 4)], 1, False),
        ("task_closed", [row("task_closed", 1, -1, 4)], None, False),
        ("task_reopened", [row("task_reopened", 1, 3, 4)], 0, False),
        ("tests_after_last_edit", [row("tests_after_last_edit", 1, -1, 0)], 1, False),
        ("tests_after_last_edit", [row("tests_after_last_edit", 1, -1, -1)], 1, False),
        ("tests_after_last_edit", [row("tests_after_last_edit", None, -1, 0)], None, False),
        ("x_rating", [row("x_rating", 0.3, 1, 2)], 0.3, False),
    ],
)
def test_an_outcome_counts_when_its_horizon_was_seen(
    kind: str, rows: list[dict[str, Any]], value: float | None, is_young: bool
) -> None:
    found = valued(kind, *rows)

    assert found[0] == (None if value is None else pytest.approx(value))
    assert found[1] is is_young


def test_for_arms_a_session_without_a_commit_is_not_merged() -> None:
    other = row("merged", 1, 3, 15, session_key="other")

    assert valued("merged", other, of_all=True) == (0, False)  # git was read on day 15
    assert valued("merged", other | {"read_at": day(13)}, of_all=True) == (None, True)
    assert valued("merged", row("merged", 1, -0.1, 15), of_all=True) == (1, False)
    assert valued("merged", row("merged", None, None, 15), other, of_all=True) == (None, False)


def test_sessions_without_a_row_count_by_the_same_reading_as_those_with_one() -> None:
    keys = [f"s{number}" for number in range(1, 6)]
    sent = [row("merged", 1, 2, 2, **OUTSIDE, session_key=key) for key in keys[:3]]
    rows = frame(SESSION_OUTCOMES.schema, [*sent, LATER])
    sessions = SESSIONS.drop("session_key").join(pl.DataFrame({"session_key": keys}), how="cross")

    found = [
        outcome_values(rows, sessions, RULES["merged"], of_all=of_all)["value"].to_list()
        for of_all in (True, False)
    ]

    assert found == [[1, 1, 1, 0, 0], [1, 1, 1, None, None]]


def test_an_unknown_outcome_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match="no outcome is named x_: use merged, reverted"):
        rule_of("x_")


def arm(*shares: float, sessions: int = 10) -> Arm:
    """Return an arm of people with these shares of good outcomes."""
    hits = [np.arange(sessions) < round(share * sessions) for share in shares]
    people = np.repeat(np.arange(len(shares)), sessions)
    same = np.zeros(len(people), dtype=np.int64)
    return Arm(np.concatenate(hits).astype(np.float64), people, same, same)


def test_people_weigh_alike_and_t_is_on_their_shares() -> None:
    first, second = arm(0.9, 0.8, 0.7, 0.8, 0.8), arm(0.4, 0.5, 0.5, 0.6, 0.5)

    found = share_difference(first, second)

    # People of both arms: differences 0.5, 0.3, 0.2, 0.2, 0.3, mean 0.3, s² = 0.06 / 4.
    assert isinstance(found, ShareDifference)
    assert found.shares is None  # 25 of 100 are rare enough for t
    half = 2.776445 * math.sqrt(0.06 / 4 / 5)  # t(0.975, 4)
    assert found.ends() == pytest.approx((0.3 - half, 0.3 + half), abs=1e-6)
    assert found.ends(found.p())[0] == pytest.approx(0, abs=1e-5)


def test_a_rare_value_takes_the_wider_of_t_and_wilson() -> None:
    first, second = arm(1, 1, 1, 1, 1, 0.9), arm(*[1] * 6)

    found = share_difference(first, second)

    assert isinstance(found, ShareDifference)
    assert found.shares is not None
    assert [share.value for share in found.shares] == pytest.approx([59 / 60, 1])
    low, high = found.ends()
    one, all_ = (share.ends() for share in found.shares)
    # MOVER: the distances of both Wilson ends; t on (-0.1, 0, 0, 0, 0, 0) is narrower.
    assert low == pytest.approx(-1 / 60 - math.hypot(59 / 60 - one[0], 0))
    assert high == pytest.approx(-1 / 60 + math.hypot(one[1] - 59 / 60, 1 - all_[0]))
    # Of 6 people of 10 with a correlation of 0.05: 60 / (1 + 9 * 0.05) sessions.
    assert found.shares[1].number == pytest.approx(60 / 1.45)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (arm(*[1] * 5), arm(*[1] * 5), "all outcomes are the same"),
        (arm(0.5, 0.5, 0.5, 0.5), arm(*[0.5] * 5), "an arm needs 30 sessions of 5 people"),
        (arm(*[0.5] * 5, sessions=4), arm(*[0.5] * 5), "an arm needs 30 sessions of 5 people"),
    ],
)
def test_too_little_decides_nothing(first: Arm, second: Arm, reason: str) -> None:
    found = share_difference(first, second)

    assert isinstance(found, str)
    assert reason in found


def runs(**arms: tuple[float, ...]) -> pl.DataFrame:
    """Return runs of ten sessions of each person of some arms, two of them too young."""
    rows = [
        {
            "model": name,
            "person": f"u{person}",
            "session_id": f"{name} {person} {number}",
            "started_at": END,
            "value": None if number > 9 else float(number < round(share * 10)),
            "is_young": number > 9,
        }
        for name, shares in arms.items()
        for person, share in enumerate(shares)
        for number in range(12)
    ]
    schema = {**RUNS, "value": pl.Float64(), "is_young": pl.Boolean()}
    return frame(schema, rows)


def test_arms_are_compared_by_the_share_of_all_sessions() -> None:
    given = runs(main=(0.4, 0.5, 0.5, 0.6, 0.5), new=(0.9, 0.8, 0.7, 0.8, 0.8), few=(1.0, 0.8))
    last = pl.col("session_id").str.ends_with(" 11")
    is_unknown = last & pl.col("model").is_in(["main", "none"])
    given = pl.concat([given, runs(none=(1.0,)).filter(last)]).with_columns(
        is_young=pl.col("is_young") & ~is_unknown
    )

    found = compare_outcomes(given, RULES["merged"])

    assert [
        (outcome_arm.name, outcome_arm.sessions, outcome_arm.people) for outcome_arm in found.arms
    ] == [
        *(("few", 20, 2), ("new", 50, 5), ("main", 50, 5)),
    ]
    assert [outcome_arm.share.value for outcome_arm in found.arms] == pytest.approx([0.9, 0.8, 0.5])
    verdicts = {(pair.first, pair.second): pair.verdict for pair in found.pairs}
    assert verdicts["new", "main"] == "new is better"
    assert verdicts["few", "main"].startswith("not decided: an arm needs")
    assert sentences(found)[1] == (
        "Sessions that do not count: few 4 younger than the horizon, "
        "main 5 younger than the horizon, main 5 without a known outcome, "
        "new 10 younger than the horizon, none 1 without a known outcome."
    )
    alone = compare_outcomes(given.with_columns(person=pl.lit(None, pl.String)), RULES["merged"])
    assert {pair.low for pair in alone.pairs} == {None}
