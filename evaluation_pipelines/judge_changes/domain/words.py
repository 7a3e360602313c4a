"""Judge changes in sentences that need no statistics."""

from evaluation_pipelines.formatting import interval, number, points, signed, usd
from evaluation_pipelines.judge_changes.domain.clustered import Mean
from evaluation_pipelines.judge_changes.domain.drawing import ANCHORS, SAMPLES
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.domain.split import (
    FEWEST_PEOPLE,
    WIDE,
    WIDEST,
    Split,
)

METHOD = (
    (
        f"Anchors are at least {ANCHORS} sessions of the 28 days before the change (all, if there "
        "are fewer), drawn at random within each label and model of the agent. A session that was "
        "less likely to be drawn weighs as much more."
    ),
    (
        f"Each judge scores each anchor {SAMPLES} times, and the mean counts. The judge's part is "
        "the mean difference on the same sessions, in points of the judge's total of 100."
    ),
    (
        "The agents' part is the rest: the mean after (by the new judge) minus the mean before (by "
        "the previous judge) minus the judge's part."
    ),
    "Ranges are 95% intervals. Sessions of one person are taken to be similar.",
    "Numbers are rounded individually, so sums and differences may be off by 0.1.",
    (
        f"A range of more than {number(WIDE, 0)} points to either side is reported as rough. With "
        f"more than {number(WIDEST, 0)} points there is a break in the series."
    ),
)
"""The method in sentences."""


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
