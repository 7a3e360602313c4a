"""Judge changes built from numbers, without stores."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.judges import Change, Judge
from evaluation_pipelines.judge_changes.domain.shift import period_means, split
from evaluation_pipelines.schemas import JUDGE_ANCHORS, JUDGE_CHANGES

FORMER = Judge("default", 1, "judge-1", "agent-methodology", "a" * 64)
NEW = replace(FORMER, model="judge-2")
DAY = date(2026, 6, 1)
CHANGE = Change(FORMER, NEW, DAY)


def rows(
    scores: Sequence[float], people: Sequence[str | None], days: Sequence[date]
) -> pl.DataFrame:
    """Scores of sessions, as ``split`` takes them."""
    return pl.DataFrame(
        {
            "organization_id": ["default"] * len(scores),
            "session_id": [f"t{number}" for number in range(len(scores))],
            "session_date": list(days),
            "total_score": [float(score) for score in scores],
            "person": list(people),
        },
        schema_overrides={
            "session_id": pl.String,
            "person": pl.String,
            "session_date": pl.Date,
            "total_score": pl.Float64,
        },
    )


def simulated(
    judges_part: float, agents_part: float, *, people: int = 9, spread: float = 6.0, seed: int = 3
) -> JudgeChange:
    """A measured change with 120 anchors of 200, and 100 sessions before and after it."""
    random = np.random.default_rng(seed)
    of_person = random.normal(0, 3, people)
    who = [number % people for number in range(120)]
    skill = 62 + of_person[who] + random.normal(0, 8, 120)
    lean = random.normal(0, spread / 4, people)[who] + random.normal(0, spread, 120)
    # Totals of a judge are whole numbers.
    former, new = (ndarray.clip(5, 95).round() for ndarray in (skill, skill + judges_part + lean))
    days = [DAY - timedelta(days=1 + number % 28) for number in range(120)]
    anchors = rows(former.tolist(), [f"p{number}" for number in who], days).with_columns(
        former_score=former, new_score=new, weight=pl.lit(200 / 120)
    )
    names = [f"p{number % people}" for number in range(100)]
    work = of_person[[number % people for number in range(100)]] + random.normal(0, 8, (2, 100))
    offsets = [number * 27 // 99 for number in range(100)]
    before = rows(
        (62 + work[0]).tolist(), names, [DAY - timedelta(days=28 - offset) for offset in offsets]
    )
    later = 62 + judges_part + agents_part + work[1]
    after = rows(later, names, [DAY + timedelta(days=offset) for offset in offsets])
    facts = {"anchors": 120, "anchors_scored": 120, "anchors_replaced": 0, "frame_sessions": 200}
    row = {
        **change_row(CHANGE),
        **facts,
        "state": "measured",
        "cost_usd": 3.6,
        **split(anchors, before, after),
    }
    means = pl.concat([period_means(before, DAY), period_means(after, DAY)])
    drawn = anchors.select(
        session_key="session_id",
        former_score="former_score",
        new_score="new_score",
        difference=pl.col("new_score") - pl.col("former_score"),
        classification_label=pl.lit("general"),
        agent_model=pl.lit("aspen-4"),
        stratum_sessions=pl.lit(200),
    )
    shown = [pl.DataFrame(schema=JUDGE_ANCHORS.schema), drawn]
    return JudgeChange(CHANGE, row, pl.concat(shown, how="diagonal_relaxed"), means)


def change_row(change: Change) -> dict[str, Any]:
    """A row of JUDGE_CHANGES of which nothing is measured."""
    names = {"change_id": change.change_id, "changed_on": change.changed_on, "trend": "cut"}
    computed_at = datetime(2026, 7, 1, tzinfo=UTC)
    return dict.fromkeys(JUDGE_CHANGES.schema) | names | {"computed_at": computed_at}


def unmeasured(found: JudgeChange) -> JudgeChange:
    """The same change before its anchors are scored."""
    facts = {"anchors": 120, "anchors_scored": 0, "anchors_replaced": 0, "frame_sessions": 200}
    state = {"state": "incomplete", "reason": "both judges have scored 0 of 120 anchors"}
    unscored = found.anchors.with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in ("former_score", "new_score", "difference")
    )
    return replace(found, row={**change_row(found.change), **facts, **state}, anchors=unscored)


def changed(found: JudgeChange, **columns: Any) -> JudgeChange:
    """The same change with other values in its row."""
    return replace(found, row=found.row | columns)
