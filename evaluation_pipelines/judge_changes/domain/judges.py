"""Judges as scores name them, the changes between them, and scores on the scale of the newest."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import date, timedelta
from itertools import groupby, pairwise
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE

RECENT = timedelta(days=56)
"""Older changes are no longer on a trend: 28 days before are compared with 28 days after."""

JUDGE = (
    "judge_profile_id",
    "judge_profile_version",
    "judge_model",
    "rubric",
    "prompt_hash",
)
"""Columns of ``judge_scores`` that say which judge made a score."""

_SCORING = ("organization_id", "session_key", "judge_profile_id")

SCORE_COLUMNS = (
    *("score_id", "organization_id", "session_key", "session_id", "session_date"),
    *("content_hash", "agent_model", *JUDGE),
    *("status", "total_score", "sample_totals", "completed_at"),
    *("input_tokens", "cached_tokens", "output_tokens"),
)
"""Columns of ``judge_scores`` that this feature reads."""


@dataclass(frozen=True, slots=True, order=True)
class Judge:
    """A judge: profile, version of the profile, model, rubric, and the wording of the rubric."""

    profile_id: str
    profile_version: int
    model: str
    rubric: str
    prompt_hash: str

    def differences(self, other: "Judge") -> list[str]:
        """Return what differs from another judge of the same profile, as words."""
        pairs = {
            "model": (self.model, other.model),
            "rubric": (self.rubric, other.rubric),
            "wording of the rubric": (self.prompt_hash, other.prompt_hash),
            "profile version": (self.profile_version, other.profile_version),
        }
        changed = [name for name, (mine, its) in pairs.items() if mine != its]
        # Another rubric always has another wording.
        return [name for name in changed if not ("rubric" in changed and "wording" in name)]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the judge of one profile.

    Attributes:
        former: Judge of the sessions before.
        new: Judge of the sessions from then on.
        changed_on: First session date of the new judge; ``None`` if it has not scored yet.
        until: First session date of the judge after it; ``None`` if there is none.
    """

    former: Judge
    new: Judge
    changed_on: date | None
    until: date | None = None

    @property
    def judges(self) -> dict[str, Judge]:
        """Both judges by their names in columns."""
        return {"former": self.former, "new": self.new}

    @property
    def profile_id(self) -> str:
        """The profile whose judge changed."""
        return self.former.profile_id

    def is_recent(self, today: date) -> bool:
        """Return whether people still compare scores before and after it."""
        return self.changed_on is None or today - self.changed_on <= RECENT

    @property
    def change_id(self) -> str:
        """Hash of both judges: a later change between the same two uses the same anchors."""
        said = "\0".join(map(str, (*astuple(self.former), *astuple(self.new))))
        return hashlib.sha256(said.encode()).hexdigest()[:12]


def first_judged(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the scores that the trend of a profile is made of.

    A session counts once per profile, for the judge that scored it first: a history that is scored
    again does not move the date of a change. Its score is the newest one by that judge.

    Args:
        scores: SCORE_COLUMNS of ``judge_scores``.
    """
    done = scores.filter(pl.col("status") == "completed", pl.col("total_score").is_not_null())
    done = done.sort("completed_at", "score_id")
    first = done.unique(_SCORING, keep="first", maintain_order=True).select(*_SCORING[:2], *JUDGE)
    by_first = done.join(first, on=[*_SCORING[:2], *JUDGE], how="semi")
    newest = by_first.unique(_SCORING, keep="last", maintain_order=True)
    return newest.sort("session_date", "organization_id", "session_key", "judge_profile_id")


def find_changes(first: pl.DataFrame, current: Mapping[str, Judge]) -> list[Change]:
    """Return the changes of all profiles, the newest first.

    The judge of a session date is the one with the most sessions on it, so that a single session
    scored by another model for a trial is no change.

    Args:
        first: ``first_judged`` scores.
        current: Judge that would score the next session, by profile; profiles may be missing.
    """
    changes: list[Change] = []
    for profile_id, spells in groupby(_spells(first), key=lambda spell: spell[0].profile_id):
        known: list[tuple[Judge, date | None]] = [*spells]
        newest = known[-1][0]
        if current.get(profile_id, newest) != newest:
            known.append((current[profile_id], None))
        ends = [begun for _, begun in known[2:]] + [None]
        changes += [
            Change(former, new, begun, until)
            for ((former, _), (new, begun)), until in zip(pairwise(known), ends, strict=False)
        ]
    return sorted(changes, key=lambda change: change.changed_on or date.max, reverse=True)


def sessions_of(first: pl.DataFrame, judge: Judge, since: date, until: date) -> pl.DataFrame:
    """Return the scores by a judge of sessions of some dates (half-open)."""
    is_judge = pl.all_horizontal(
        pl.col(name) == value for name, value in zip(JUDGE, astuple(judge), strict=True)
    )
    return first.filter(is_judge, pl.col("session_date").is_between(since, until, closed="left"))


def _spells(first: pl.DataFrame) -> Iterator[tuple[Judge, date]]:
    """Yield each judge of each profile with the first of the dates in a row that it judged."""
    counted = first.group_by("session_date", *JUDGE).agg(
        pl.len().alias("sessions"), pl.col("completed_at").max()
    )
    order = ("judge_profile_id", "session_date", "sessions", "completed_at", *JUDGE)
    by_date = counted.sort(order).unique(
        ["judge_profile_id", "session_date"], keep="last", maintain_order=True
    )
    rows: Iterable[tuple[object, ...]] = by_date.select(*JUDGE, "session_date").iter_rows()
    judged = [(Judge(*row[:-1]), row[-1]) for row in rows]  # type: ignore[arg-type]
    for judge, dates in groupby(judged, key=lambda spell: spell[0]):
        yield judge, next(dates)[1]  # type: ignore[misc]


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


def is_one_scale(turns: Iterable[Turn], first: date, last: date) -> bool:
    """Return whether scores of all sessions from ``first`` to ``last`` can be compared.

    Args:
        turns: Changes of the judge, of any profile and in any order.
        first: First session date. On the day of a change all sessions have the new judge.
        last: Last session date, included.
    """
    return not any(turn.shift is None and first < turn.changed_on <= last for turn in turns)


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
        is_before = _by_former_judge(change)
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


def is_judged_for(profile_id: str) -> pl.Expr:
    """Return whether the effective score of a row is by the judge of a profile.

    The columns are ``profile_id`` and ``effective_source``. Without a score it is null or False.
    """
    source, is_asked = (
        pl.col("effective_source"),
        pl.col("profile_id").eq_missing(pl.lit(profile_id)),
    )
    if profile_id == DEFAULT_PROFILE:  # sessions without a judge profile of their own
        is_asked |= source == "judge"
    return is_asked & source.is_in(["judge", "scorecard"])


def _by_former_judge(change: Mapping[str, Any]) -> pl.Expr:
    """Return whether the automatic score of a row is by the former judge of a change."""
    is_before = pl.col("session_date") < change["changed_on"]
    is_former = pl.col("_judge").eq_missing(pl.lit(change["former_model"]))
    return pl.all_horizontal(is_judged_for(change["judge_profile_id"]), is_before, is_former)


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
