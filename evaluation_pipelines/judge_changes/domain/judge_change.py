"""A measured judge change in words, and the check of all of them."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.domain.judges import RECENT, Change, Judge
from evaluation_pipelines.schemas import JUDGE_CHANGES
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult

DAYS = 28
"""Anchors are drawn from the sessions of this many days."""

ANCHORS = 120
"""Number of anchors of a change, if there are as many sessions."""

SAMPLES = 3
"""Scores of an anchor by each judge."""


STRATUM = ("classification_label", "agent_model")

Stratum = tuple[str, str | None]


WIDE = 2.0
"""A half-width of the judge's part above this is mentioned."""

FEWEST_PEOPLE = 5
"""With fewer people the judge's part is an indication only."""

NO_CHANGE = "No judge has changed: each profile has scores of one judge."


@dataclass(frozen=True, slots=True)
class JudgeChange:
    """A change and what is known of it.

    Attributes:
        change: The change.
        row: Its row of JUDGE_CHANGES.
        anchors: Its rows of JUDGE_ANCHORS.
        means: ``period_means`` of the former judge before the change (``middle`` is negative), and
            of the new one after it.
    """

    change: Change
    row: dict[str, Any]
    anchors: pl.DataFrame
    means: pl.DataFrame


def title(change: Change) -> str:
    """Return what changed and when."""
    what = " and ".join(change.former.differences(change.new))
    when = "not in use yet" if change.changed_on is None else f"since {change.changed_on}"
    return f"profile {change.profile_id}: another {what} {when}"


def judges_line(change: Change) -> str:
    """Return both judges."""
    return f"{_judge(change.former)} -> {_judge(change.new)}"


def _judge(judge: Judge) -> str:
    wording = f"{judge.rubric} ({judge.prompt_hash[:7]})"
    return f"{judge.model}, rubric {wording}, profile version {judge.profile_version}"


def names(change: Change) -> tuple[str, str]:
    """Return the shortest names that tell the two judges apart."""
    former, new = (
        (
            *(judge.model, judge.rubric, f"version {judge.profile_version}"),
            f"wording {judge.prompt_hash[:7]}",
        )
        for judge in (change.former, change.new)
    )
    pairs = [*zip(former, new, strict=True)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def headline(row: dict[str, Any]) -> str:
    """Return how much of the change comes from the judge, and how much from the agents."""
    judge, agents = (_with_interval(row, f"{name}_part") for name in ("judges", "agents"))
    if row["judges_part"] is None:
        if row["state"] == "impossible":
            return "The judges cannot be compared: break in the series."
        return "Not measured yet. Compare only scores from the same judge."
    if row["agents_part"] is None:
        return f"On the same sessions the new judge differs by {judge} points."
    if row["trend"] == "cut":
        return "The judges cannot be compared precisely enough: break in the series."
    shift = signed(row["shift"])
    return f"Mean score {shift}: {judge} from the new judge, {agents} from the agents."


def _with_interval(row: dict[str, Any], name: str) -> str:
    value, low, high = (signed(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    ends = interval(low, high)
    return f"{value} ({ends})" if ends else value


def sentences(found: JudgeChange) -> list[str]:
    """Return what is known of a change, the most important first."""
    row, is_bridged = found.row, found.row["trend"] == "bridged"
    if row["judges_part"] is None:
        lines = [f"{row['reason'][:1].upper()}{row['reason'][1:]}."]
        if row["state"] == "impossible":
            return lines
        command = f"evaluation-pipelines judge changes {row['change_id']} --anchors"
        return [*lines, "Until then there is a break in the series.", f"To measure it: {command}"]
    former, new = points(row["former_anchor_score"]), points(row["new_anchor_score"])
    means = f"mean {former} from the previous judge, {new} from the new one"
    lines = [f"Both judges scored the same {row['anchors']} sessions: {means}.", *_shift(row)]
    if not is_bridged:
        why = f"scores before and after are not comparable, because {row['reason']}"
        lines.append(f"Break in the series: {why}.")
    else:
        lines.append(f"Earlier judge scores are shown adjusted by {signed(row['judges_part'])}.")
        if row["half_width"] > WIDE:
            half = points(row["half_width"])
            lines.append(f"The change from the judge is rough: known to within {half} points.")
    if row["clustered_by"] != "person":
        lines.append("People are unknown for many sessions: each session and day counts as one.")
    elif row["people"] < FEWEST_PEOPLE:
        few = f"Sessions from only {row['people']} people, fewer than {FEWEST_PEOPLE}"
        lines.append(f"{few}: an indication, not a finding.")
    return [*lines, *_anchors(found)]


def _shift(row: dict[str, Any]) -> list[str]:
    if row["shift"] is None:
        return ["The new judge has scored no session of its own yet."]
    before, after = (
        f"{points(row[f'{side}_score'])} ({row[f'{side}_sessions']} sessions"
        for side in ("before", "after")
    )
    moved = f"from {before}, previous judge) to {after}, new judge)"
    line = f"Mean {signed(row['shift'])}: {moved}."
    if row["trend"] == "cut":
        return [line, "How much of it comes from the judge is unknown."]
    low, high = row["agents_part_low"], row["agents_part_high"]
    if low is None or low <= 0 <= high:
        return [line, "The agents' change may be chance."]
    became = "seem to have become" if row["people"] < FEWEST_PEOPLE else "became"
    return [line, f"The agents {became} {'better' if low > 0 else 'worse'}, with either judge."]


def _anchors(found: JudgeChange) -> list[str]:
    row, lines = found.row, list[str]()
    if row["anchors"] < ANCHORS:
        available = f"{row['frame_sessions']} were available"
        lines.append(f"{row['anchors']} of {ANCHORS} anchor sessions, {available}.")
    if row["anchors_replaced"]:
        reasons = sorted(set(found.anchors["replaced_because"].drop_nulls()))
        number = row["anchors_replaced"]
        lines.append(f"Replaced anchor sessions: {number} ({', '.join(reasons)}).")
    if row["cost_usd"] is not None:
        lines.append(f"Anchor cost: {usd(row['cost_usd'])}.")
    return lines


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
        f"anchors scored by both judges for each of {changes.height:,} changes",
        f"{open_ones.height:,} changes without: run `evaluation-pipelines judge changes --anchors`",
        tuple(open_ones["change_id"].head(EXAMPLES)),
        "warning",
    )
