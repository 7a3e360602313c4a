"""Scores of many sessions on the scale of the newest judge, and where that is not possible."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE

MIXED = "earlier scores contain more than the judge score"


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of the judge between sessions of a trend.

    Attributes:
        changed_on: First day of the new judge.
        profile_id: The profile.
        former: Model of the former judge.
        new: Model of the new judge.
        shift: Points that are added to scores before; ``None`` if the trend is cut.
        reason: Why the trend is cut; ``None`` if it is bridged.
    """

    changed_on: date
    profile_id: str
    former: str
    new: str
    shift: float | None
    reason: str | None


def on_newest_scale(rows: pl.DataFrame, changes: pl.DataFrame) -> tuple[pl.DataFrame, list[Turn]]:
    """Return rows with ``score``: the effective score on the scale of the newest judge.

    A score that is the judge's total is shifted by the judge's part of each bridged change that
    came after it. Scores that contain more than that total cannot be shifted: the trend is cut.

    Args:
        rows: ``session_date``, ``profile_id``, ``automatic_judge_model``,
            ``effective_source`` and ``effective_100``.
        changes: JUDGE_CHANGES.

    Returns:
        The rows, and the changes between them, the oldest first.
    """
    turns: list[Turn] = []
    scaled = rows.with_columns(score="effective_100", _judge="automatic_judge_model")
    used = changes.filter(pl.col("changed_on").is_not_null()).sort("changed_on", "change_id")
    for change in used.iter_rows(named=True):
        is_before = _is_of_former(change)
        is_whole = pl.col("effective_source") == "judge"
        judged = scaled.filter(is_before)
        if judged.is_empty():
            continue
        has_others = judged.select((~is_whole).any()).item()
        turn = _turn(change, has_others=has_others)
        turns.append(turn)
        shifted = pl.when(is_before & is_whole).then(pl.col("score") + (turn.shift or 0.0))
        scaled = scaled.with_columns(
            score=shifted.otherwise("score"),
            _judge=pl.when(is_before).then(pl.lit(change["new_model"])).otherwise("_judge"),
        )
    return scaled.drop("_judge"), turns


def _is_of_former(change: Mapping[str, Any]) -> pl.Expr:
    """Return whether the automatic score of a row is by the former judge of a change."""
    profile, source = change["judge_profile_id"], pl.col("effective_source")
    is_asked = pl.col("profile_id").eq_missing(pl.lit(profile))
    if profile == DEFAULT_PROFILE:  # sessions without a judge profile of their own
        is_asked |= source == "judge"
    is_used = source.is_in(["judge", "scorecard"])
    is_before = pl.col("session_date") < change["changed_on"]
    is_former = pl.col("_judge").eq_missing(pl.lit(change["former_model"]))
    return pl.all_horizontal(is_asked, is_used, is_before, is_former)


def _turn(change: Mapping[str, Any], *, has_others: bool) -> Turn:
    is_bridged = change["trend"] == "bridged" and not has_others
    return Turn(
        change["changed_on"],
        change["judge_profile_id"],
        change["former_model"],
        change["new_model"],
        change["judges_part"] if is_bridged else None,
        None if is_bridged else change["reason"] or MIXED,
    )
