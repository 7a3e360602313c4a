"""Judge changes built from numbers, without stores."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import polars as pl

from evaluation_pipelines.judge_changes.domain.bridge import points, split
from evaluation_pipelines.judge_changes.domain.drawing import (
    Anchor,
    Drawing,
    FrameSession,
)
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NOT_SCORED,
    AnchorScorings,
    JudgeChange,
    ScoredAnchor,
)
from evaluation_pipelines.judge_changes.domain.judges import Change, Judge

FORMER = Judge("default", 1, "judge-1", "agent-methodology", "a" * 64)
NEW = replace(FORMER, model="judge-2")
DAY = date(2026, 6, 1)
CHANGE = Change(FORMER, NEW, DAY)
DRAWING = Drawing(CHANGE.change_id, DAY - timedelta(days=28), DAY, 200, 0)


def frame_session(
    number: int, label: str = "general", model: str | None = "aspen-4"
) -> FrameSession:
    """A session to draw."""
    name = f"s{number}"
    day = DAY - timedelta(days=1 + number % 28)
    return FrameSession("default", f"{name}#baseline-1", name, day, f"c{number}", label, model)


def rows(
    scores: Sequence[float], people: Sequence[str | None], days: Sequence[date]
) -> pl.DataFrame:
    """Scores of sessions, as ``split`` takes them."""
    return pl.DataFrame(
        {
            "organization_id": ["default"] * len(scores),
            "session_id": [f"t{number}" for number in range(len(scores))],
            "session_date": list(days),
            "total_score": [float(each) for each in scores],
            "person": list(people),
        },
        schema_overrides={"person": pl.String, "session_date": pl.Date},
    )


def simulated(
    judges_part: float, agents_part: float, *, people: int = 9, spread: float = 6.0, seed: int = 3
) -> JudgeChange:
    """A measured change with 120 anchors, and 100 sessions before and after it."""
    random = np.random.default_rng(seed)
    of_person = random.normal(0, 3, people)
    sessions = [frame_session(number) for number in range(120)]
    who = [number % people for number in range(120)]
    skill = 62 + of_person[who] + random.normal(0, 8, 120)
    lean = random.normal(0, spread / 4, people)[who] + random.normal(0, spread, 120)
    # Totals of a judge are whole numbers.
    former, new = (each.clip(5, 95).round() for each in (skill, skill + judges_part + lean))
    anchors = pl.DataFrame(
        {
            "organization_id": ["default"] * 120,
            "session_id": [each.session_id for each in sessions],
            "session_date": [each.session_date for each in sessions],
            "former_score": former,
            "new_score": new,
            "weight": np.full(120, 200 / 120),
            "person": [f"p{each}" for each in who],
        }
    )
    names = [f"p{number % people}" for number in range(100)]
    work = of_person[[number % people for number in range(100)]] + random.normal(0, 8, (2, 100))
    offsets = [number * 27 // 99 for number in range(100)]
    before = rows(62 + work[0], names, [DAY - timedelta(days=28 - each) for each in offsets])
    later = 62 + judges_part + agents_part + work[1]
    after = rows(later, names, [DAY + timedelta(days=each) for each in offsets])
    scored = [
        ScoredAnchor(
            Anchor(session, 200, 120, place),
            AnchorScorings([int(former[place])] * 3, cost_usd=0.01),
            AnchorScorings([int(new[place])] * 3, cost_usd=0.02),
        )
        for place, session in enumerate(sessions)
    ]
    parts = split(anchors, before, after)
    series = points(before, DAY), points(after, DAY)
    return JudgeChange(CHANGE, "measured", None, parts, DRAWING, scored, *series, 3.6)


def unmeasured(found: JudgeChange) -> JudgeChange:
    """The same change before its anchors are scored."""
    anchors = [replace(each, former=NOT_SCORED, new=NOT_SCORED) for each in found.anchors]
    reason = "both judges have scored 0 of 120 anchors"
    return replace(found, state="incomplete", reason=reason, split=None, anchors=anchors)
