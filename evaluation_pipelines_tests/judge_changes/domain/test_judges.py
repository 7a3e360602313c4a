"""Which judge scored which date, and when another one took over."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.judge_changes.domain.judges import (
    SCORE_COLUMNS,
    Change,
    Judge,
    find_changes,
    first_judged,
    sessions_of,
)
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines_tests.judge_changes.change_builders import FORMER, NEW

JUNE = date(2026, 6, 1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def score(
    session: str, day: int, judge: Judge, total: float = 60, hours: float = 0, **columns: Any
) -> dict[str, Any]:
    """A score of a session of a day in June, completed the next night or some hours later."""
    return {
        "score_id": f"{session}-{judge.model}-{hours}",
        "organization_id": "default",
        "session_key": session,
        "session_id": session,
        "session_date": JUNE + timedelta(days=day - 1),
        "content_hash": "c",
        "judge_profile_id": judge.profile_id,
        "judge_profile_version": judge.profile_version,
        "judge_model": judge.model,
        "rubric": judge.rubric,
        "prompt_hash": judge.prompt_hash,
        "status": "completed",
        "total_score": total,
        "completed_at": NOON + timedelta(days=day, hours=hours),
        **columns,
    }


def frame(*scores: dict[str, Any]) -> pl.DataFrame:
    schema = {name: JUDGE_SCORES.schema[name] for name in SCORE_COLUMNS}
    return pl.DataFrame([dict.fromkeys(schema) | each for each in scores], schema=schema)


def changes(*scores: dict[str, Any], current: Judge | None = None) -> list[Change]:
    now = {} if current is None else {current.profile_id: current}
    return find_changes(first_judged(frame(*scores)), now)


def test_a_date_on_which_another_judge_scores_most_sessions_is_a_change() -> None:
    found = changes(
        score("a", 1, FORMER),
        score("b", 2, FORMER),
        score("c", 2, NEW),
        score("d", 2, FORMER),
        score("e", 3, NEW),
        score("f", 4, NEW),
    )

    # On June 2 the former judge has two of three sessions.
    assert found == [Change(FORMER, NEW, date(2026, 6, 3))]
    assert found[0].former.differences(found[0].new) == ["model"]


def test_one_judge_is_no_change() -> None:
    assert changes(score("a", 1, FORMER), score("b", 9, FORMER)) == []
    assert changes() == []
    assert changes(score("a", 1, FORMER), current=FORMER) == []


def test_a_history_that_is_scored_again_moves_no_date() -> None:
    again = [score(name, day, NEW, 90, 500) for name, day in (("a", 1), ("b", 2))]
    scores = [score("a", 1, FORMER), score("b", 2, FORMER), score("c", 3, NEW), *again]

    assert changes(*scores) == [Change(FORMER, NEW, date(2026, 6, 3))]
    assert first_judged(frame(*scores))["total_score"].to_list() == [60, 60, 60]


def test_the_newest_score_by_the_first_judge_counts() -> None:
    first = first_judged(
        frame(
            score("a", 1, FORMER, 50),
            score("a", 1, FORMER, 70, 5, content_hash="longer"),
            score("a", 1, NEW, 90, 9),
            score("b", 1, FORMER, 40, status="failed", total_score=None),
        )
    )

    assert first.select("session_key", "total_score", "content_hash").rows() == [
        ("a", 70.0, "longer")
    ]


def test_a_judge_that_has_not_scored_yet_is_a_change_without_a_date() -> None:
    third = replace(NEW, rubric="incident-investigation", prompt_hash="c" * 64)
    found = changes(score("a", 1, FORMER), score("b", 2, NEW), current=third)

    assert found == [
        Change(NEW, third, None),
        Change(FORMER, NEW, date(2026, 6, 2)),
    ]
    assert NEW.differences(third) == ["rubric"]


def test_a_change_ends_where_the_next_begins_and_there_and_back_are_two() -> None:
    found = changes(score("a", 1, FORMER), score("b", 3, NEW), score("c", 5, FORMER))

    assert found == [
        Change(NEW, FORMER, date(2026, 6, 5)),
        Change(FORMER, NEW, date(2026, 6, 3), date(2026, 6, 5)),
    ]
    assert len({each.change_id for each in found}) == 2


def test_profiles_change_apart_from_each_other() -> None:
    other = replace(FORMER, profile_id="incidents")
    later = replace(other, profile_version=2)
    found = changes(
        score("a", 1, FORMER),
        score("a", 1, other),
        score("b", 2, FORMER),
        score("b", 2, later),
    )

    assert found == [Change(other, later, date(2026, 6, 2))]
    assert other.differences(later) == ["profile version"]
    assert found[0].profile_id == "incidents"


def test_another_wording_of_the_same_rubric_is_another_judge() -> None:
    reworded = replace(FORMER, prompt_hash="b" * 64)

    (found,) = changes(score("a", 1, FORMER), score("b", 2, reworded))
    assert found.former.differences(found.new) == ["wording of the rubric"]


def test_sessions_of_a_judge_are_those_of_the_dates() -> None:
    first = first_judged(
        frame(*(score(f"s{day}", day, FORMER) for day in (1, 2, 3)), score("n", 2, NEW))
    )

    found = sessions_of(first, FORMER, date(2026, 6, 1), date(2026, 6, 3))
    assert found["session_key"].to_list() == ["s1", "s2"]


def test_a_change_is_recent_for_56_days_and_until_it_has_begun() -> None:
    change = Change(FORMER, NEW, JUNE)

    # June has 30 days: June 1 and 56 days is July 27.
    assert change.is_recent(date(2026, 7, 27))
    assert not change.is_recent(date(2026, 7, 28))
    assert Change(FORMER, NEW, None).is_recent(date(2036, 1, 1))
