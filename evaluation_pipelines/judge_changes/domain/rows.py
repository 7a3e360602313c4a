"""Rows of the tables of judge changes, and their check."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.judge_changes.domain.clustered import Mean
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange, ScoredAnchor
from evaluation_pipelines.judge_changes.domain.judges import RECENT
from evaluation_pipelines.judge_changes.domain.words import why_cut
from evaluation_pipelines.schemas import JUDGE_ANCHORS, JUDGE_CHANGES
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SESSION = (
    *("organization_id", "session_key", "session_date"),
    *("classification_label", "agent_model"),
)


def change_rows(changes: Sequence[JudgeChange], now: datetime) -> pl.DataFrame:
    """Return JUDGE_CHANGES."""
    schema = JUDGE_CHANGES.schema
    empty: dict[str, Any] = dict.fromkeys(schema)
    rows = [empty | _change_row(each) | {"computed_at": now} for each in changes]
    return pl.DataFrame(rows, schema=schema, orient="row").sort(JUDGE_CHANGES.order)


def anchor_rows(changes: Sequence[JudgeChange]) -> pl.DataFrame:
    """Return JUDGE_ANCHORS; a change that happened twice has its anchors once."""
    schema = JUDGE_ANCHORS.schema
    by_id = {each.change.change_id: each for each in changes}
    rows = [
        _anchor_row(change_id, anchor)
        for change_id, each in by_id.items()
        for anchor in each.anchors
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").sort(JUDGE_ANCHORS.order)


def every_judge_change_is_measured(changes: pl.DataFrame) -> CheckResult:
    """Both judges of every change have scored its anchors, or it is known that they cannot.

    Changes of more than 56 days ago are left out.
    """
    age = pl.col("computed_at").dt.date() - pl.col("changed_on")
    is_open = pl.col("state").is_in(["not drawn", "incomplete"])
    open_ones = changes.filter(is_open, age.is_null() | (age <= RECENT))
    return CheckResult(
        JUDGE_CHANGES.name,
        "every_judge_change_is_measured",
        open_ones.is_empty(),
        f"anchors scored by both judges for each of {changes.height} changes",
        f"{open_ones.height} changes without: run `evaluation-pipelines judge changes --anchors`",
        tuple(open_ones["change_id"].head(EXAMPLES)),
        "warning",
    )


def _change_row(found: JudgeChange) -> dict[str, Any]:
    change, drawing = found.change, found.drawing
    judges = {
        f"{side}_{name}": getattr(judge, name)
        for side, judge in (("former", change.former), ("new", change.new))
        for name in ("profile_version", "model", "rubric", "prompt_hash")
    }
    return {
        "change_id": change.change_id,
        "judge_profile_id": change.profile_id,
        "changed_on": change.changed_on,
        **judges,
        "state": found.state,
        "trend": "bridged" if found.is_bridged else "cut",
        "reason": why_cut(found),
        "anchors": len(found.counted),
        "anchors_scored": sum(each.is_scored for each in found.counted),
        "anchors_replaced": len(found.anchors) - len(found.counted),
        "frame_sessions": None if drawing is None else drawing.frame_sessions,
        "drawn_at": None
        if drawing is None
        else _EPOCH + timedelta(microseconds=drawing.drawn_at_us),
        "cost_usd": found.cost_usd if found.anchors else None,
        **_split_columns(found),
    }


def _split_columns(found: JudgeChange) -> dict[str, Any]:
    parts = found.split
    if parts is None:
        return {}
    shift = parts.shift
    return {
        "people": parts.judges_part.people,
        "clustered_by": parts.clustered_by,
        **_figure("judges_part", parts.judges_part),
        "half_width": parts.judges_part.half_width,
        "former_anchor_score": parts.former.value,
        "new_anchor_score": parts.new.value,
        "before_score": None if parts.before is None else parts.before.value,
        "before_sessions": 0 if parts.before is None else parts.before.sessions,
        "after_score": None if parts.after is None else parts.after.value,
        "after_sessions": 0 if parts.after is None else parts.after.sessions,
        "shift": None if shift is None else shift.value,
        **({} if parts.agents_part is None else _figure("agents_part", parts.agents_part)),
    }


def _figure(name: str, figure: Mean) -> dict[str, float | None]:
    said = asdict(figure.estimate)
    return {name: said["value"], f"{name}_low": said["low"], f"{name}_high": said["high"]}


def _anchor_row(change_id: str, scored: ScoredAnchor) -> dict[str, Any]:
    anchor, former, new = scored.anchor, scored.former.score, scored.new.score
    return {
        "change_id": change_id,
        **{name: getattr(anchor.session, name) for name in _SESSION},
        "stratum_sessions": anchor.stratum_sessions,
        "stratum_anchors": anchor.stratum_anchors,
        "probability": anchor.probability,
        "place": anchor.place,
        "former_score": former,
        "new_score": new,
        "difference": None if former is None or new is None else new - former,
        "replaced_because": anchor.replaced_because,
    }
