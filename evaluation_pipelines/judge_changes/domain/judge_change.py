"""A judge change: its anchors, what both judges have said of them, the parts of the shift.

Here it is as one result, as rows of the tables, and in sentences.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any, Literal

import polars as pl

from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.domain.bridge import (
    FEWEST_PEOPLE,
    WIDE,
    Mean,
    Point,
    Split,
)
from evaluation_pipelines.judge_changes.domain.drawing import ANCHORS, Anchor, Drawing
from evaluation_pipelines.judge_changes.domain.judges import RECENT, Change
from evaluation_pipelines.schemas import JUDGE_ANCHORS, JUDGE_CHANGES
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult

ChangeState = Literal["measured", "incomplete", "not drawn", "impossible"]

MAX_ATTEMPTS = 3
"""Failed attempts after which an anchor is replaced."""


@dataclass(frozen=True, slots=True)
class AnchorScorings:
    """What one judge has said of one anchor.

    Attributes:
        totals: Totals of the samples; empty until a scoring is completed.
        failures: Number of failed scorings.
        is_final: Whether another attempt would not help.
        error: Reason of the last failure.
        cost_usd: Cost of all replies; ``None`` if a price is unknown.
    """

    totals: Sequence[int] = ()
    failures: int = 0
    is_final: bool = False
    error: str | None = None
    cost_usd: float | None = 0.0

    @property
    def score(self) -> float | None:
        """Mean of the samples; ``None`` until completed."""
        return fmean(self.totals) if self.totals else None

    @property
    def has_failed(self) -> bool:
        """Whether the judge will not score the anchor."""
        return not self.totals and (self.is_final or self.failures >= MAX_ATTEMPTS)


NOT_SCORED = AnchorScorings()


@dataclass(frozen=True, slots=True)
class ScoredAnchor:
    """An anchor and what both judges have said of it."""

    anchor: Anchor
    former: AnchorScorings
    new: AnchorScorings

    @property
    def is_scored(self) -> bool:
        """Whether both judges have scored it."""
        return bool(self.former.totals and self.new.totals)


@dataclass(frozen=True, slots=True)
class JudgeChange:
    """A change and what is known of it.

    Attributes:
        change: The change.
        state: ``measured`` if both judges have scored all anchors, ``incomplete`` if some are left,
            ``not drawn`` if there are none yet, ``impossible`` if a judge cannot be asked.
        reason: Why there is no bridge; ``None`` if there is one.
        split: The parts of the shift; ``None`` unless measured.
        drawing: The drawing of the anchors; ``None`` without one.
        anchors: All anchors, those that were replaced too.
        before: Means over time before the change, by the former judge.
        after: Means over time after it, by the new judge.
        cost_usd: Cost of the anchors; ``None`` if a price is unknown.
    """

    change: Change
    state: ChangeState
    reason: str | None
    split: Split | None
    drawing: Drawing | None
    anchors: Sequence[ScoredAnchor]
    before: Sequence[Point]
    after: Sequence[Point]
    cost_usd: float | None

    @property
    def counted(self) -> list[ScoredAnchor]:
        """Anchors that were not replaced."""
        return [each for each in self.anchors if each.anchor.replaced_because is None]

    @property
    def is_bridged(self) -> bool:
        """Whether the scores before may be shifted to the scale of the new judge."""
        return self.split is not None and self.split.trend == "bridged"


NO_CHANGE = "No judge has changed: each profile has scores of one judge."


def title(change: Change) -> str:
    """Return what changed and when."""
    what = " and ".join(change.former.differences(change.new))
    when = "not in use yet" if change.changed_on is None else f"since {change.changed_on}"
    return f"profile {change.profile_id}: another {what} {when}"


def judges_line(change: Change) -> str:
    """Return both judges."""
    return f"{_judge(change, is_new=False)} -> {_judge(change, is_new=True)}"


def names(change: Change) -> tuple[str, str]:
    """Return the shortest names that tell the two judges apart."""
    former, new = change.former, change.new
    for name in ("model", "rubric"):
        if (pair := (getattr(former, name), getattr(new, name)))[0] != pair[1]:
            return pair
    if former.profile_version != new.profile_version:
        return f"version {former.profile_version}", f"version {new.profile_version}"
    return f"wording {former.prompt_hash[:7]}", f"wording {new.prompt_hash[:7]}"


def headline(found: JudgeChange) -> str:
    """Return how much of the change comes from the judge, and how much from the agents."""
    parts = found.split
    if parts is None:
        return _unmeasured(found)
    agents = parts.agents_part
    if agents is None:
        differs = _with_interval(parts.judges_part)
        return f"On the same sessions the new judge differs by {differs} points."
    if not found.is_bridged:
        return "The judges cannot be compared precisely enough: break in the series."
    return (
        f"Mean score {signed(agents.value + parts.judges_part.value)}: "
        f"{_with_interval(parts.judges_part)} from the new judge, "
        f"{_with_interval(agents)} from the agents."
    )


def sentences(found: JudgeChange) -> list[str]:
    """Return what is known of a change, the most important first."""
    parts = found.split
    if parts is None:
        return _next_step(found)
    return [
        f"Both judges scored the same {parts.judges_part.sessions} sessions: {_means(parts)}.",
        *_shift(found, parts),
        _cut_line(found, parts),
        *(_precision(parts) if found.is_bridged else []),
        *_people(parts),
        *_anchors(found),
    ]


def why_cut(found: JudgeChange) -> str | None:
    """Return why the trend is cut; ``None`` if it is bridged."""
    if found.is_bridged:
        return None
    if found.split is None:
        return found.reason
    half = found.split.judges_part.half_width
    if half is None:
        return "the anchors are of a single person"
    return f"the judge's part is known to within {points(half)} points only"


def _means(parts: Split) -> str:
    """Return the means of both judges over the anchors."""
    return (
        f"mean {points(parts.former.value)} from the previous judge, "
        f"{points(parts.new.value)} from the new one"
    )


def _unmeasured(found: JudgeChange) -> str:
    if found.state == "impossible":
        return "The judges cannot be compared: break in the series."
    return "Not measured yet. Compare only scores from the same judge."


def _next_step(found: JudgeChange) -> list[str]:
    reason = found.reason or ""
    lines = [f"{reason[:1].upper()}{reason[1:]}."]
    if found.state == "impossible":
        return lines
    return [
        *lines,
        "Until then there is a break in the series.",
        f"To measure it: evaluation-pipelines judge changes {found.change.change_id} --anchors",
    ]


def _shift(found: JudgeChange, parts: Split) -> list[str]:
    shift, agents = parts.shift, parts.agents_part
    if shift is None or agents is None or parts.before is None or parts.after is None:
        return ["The new judge has scored no session of its own yet."]
    before, after = parts.before, parts.after
    line = (
        f"Mean {signed(shift.value)}: from {points(before.value)} ({before.sessions} sessions, "
        f"previous judge) to {points(after.value)} ({after.sessions} sessions, new judge)."
    )
    if not found.is_bridged:
        return [line, "How much of it comes from the judge is unknown."]
    low, high = agents.estimate.low, agents.estimate.high
    if low is None or high is None or low <= 0 <= high:
        return [line, "The agents' change may be chance."]
    became = "seem to have become" if agents.people < FEWEST_PEOPLE else "became"
    return [line, f"The agents {became} {'better' if low > 0 else 'worse'}, with either judge."]


def _precision(parts: Split) -> list[str]:
    half = parts.judges_part.half_width
    if half is None or half <= WIDE:
        return []
    return [f"The change from the judge is rough: known to within {points(half)} points."]


def _cut_line(found: JudgeChange, parts: Split) -> str:
    if found.is_bridged:
        return f"Earlier judge scores are shown adjusted by {signed(parts.judges_part.value)}."
    why = why_cut(found)
    return f"Break in the series: scores before and after are not comparable, because {why}."


def _people(parts: Split) -> list[str]:
    people = parts.judges_part.people
    if parts.clustered_by != "person":
        return ["People are unknown for many sessions: each session and day counts as one."]
    if people < FEWEST_PEOPLE:
        few = f"Sessions from only {people} people, fewer than {FEWEST_PEOPLE}"
        return [f"{few}: an indication, not a finding."]
    return []


def _anchors(found: JudgeChange) -> list[str]:
    counted, drawing = found.counted, found.drawing
    lines = []
    if drawing is not None and len(counted) < ANCHORS:
        lines.append(
            f"{len(counted)} of {ANCHORS} anchor sessions, {drawing.frame_sessions} were available."
        )
    if replaced := len(found.anchors) - len(counted):
        reasons = sorted({each.anchor.replaced_because or "" for each in found.anchors} - {""})
        lines.append(f"Replaced anchor sessions: {replaced} ({', '.join(reasons)}).")
    if found.cost_usd is not None:
        lines.append(f"Anchor cost: {usd(found.cost_usd)}.")
    return lines


def _judge(change: Change, *, is_new: bool) -> str:
    judge = change.new if is_new else change.former
    return (
        f"{judge.model}, rubric {judge.rubric} ({judge.prompt_hash[:7]}), "
        f"profile version {judge.profile_version}"
    )


def _with_interval(figure: Mean) -> str:
    said = figure.estimate
    ends = interval(signed(said.low), signed(said.high))
    return f"{signed(said.value)} ({ends})" if ends else signed(said.value)


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
