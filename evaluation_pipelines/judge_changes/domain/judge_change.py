"""A measured judge change in words, and the check of all of them.

Drawing of anchor sessions with known probabilities, stratified by label and model.

A simple random sample of each stratum: its sessions are ordered by a hash of their key and the id
of the change, and the first ones are drawn. The order never changes, so a session that cannot be an
anchor is replaced by the next one of its stratum.

Split of a shift of the mean score into the parts of the judge and of the agents.

The variance is the bias-reduced one of Bell and McCaffrey ("Bias reduction in standard errors for
linear regression with multi-stage samples", 2002) for the mean. Each person is one observation
``m_p`` with the share ``a_p`` of all weights, and its squared residual is divided by what is
expected of it under working variances ``v_p = r + (1 - r) / n_p``, where r is how much the values
of a person are similar. The degrees of freedom are the Satterthwaite approximation under the same
variances: a person with most of the sessions leaves few.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN, PEOPLE, SESSIONS
from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.domain.judges import RECENT, Change, Judge
from evaluation_pipelines.numerics.estimates import SMALLEST_CORRELATION, Codes, Numbers, t_quantile
from evaluation_pipelines.schemas import JUDGE_CHANGES, SESSION_KEY
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult

DAYS = 28
"""Anchors are drawn from the sessions of this many days."""

ANCHORS = 120
"""Number of anchors of a change, if there are as many sessions."""

SAMPLES = 3
"""Scores of an anchor by each judge."""

_LEAST_PER_STRATUM = 2

STRATUM = ("classification_label", "agent_model")

Stratum = tuple[str, str | None]


def draw(frame: pl.DataFrame, change_id: str, wanted: int = ANCHORS) -> pl.DataFrame:
    """Draw the anchors of a change: all sessions if there are at most ``wanted``.

    Args:
        frame: SESSION_KEY and STRATUM of the sessions to draw from, each once.
        change_id: The change.
        wanted: Number of anchors.

    Returns:
        The drawn rows with ``stratum_sessions``, ``stratum_anchors``, and ``place``: the place in
        the random order of the stratum, from 0.
    """
    ordered = _ordered(frame, change_id).with_columns(
        stratum_sessions=pl.len().over(STRATUM), place=pl.int_range(pl.len()).over(STRATUM)
    )
    sizes = {row[:2]: row[2] for row in ordered.select(*STRATUM, "stratum_sessions").iter_rows()}
    rows = [(*stratum, number) for stratum, number in allocate(sizes, wanted).items()]
    schema = {name: frame.schema[name] for name in STRATUM} | {"stratum_anchors": pl.Int64()}
    chosen = pl.DataFrame(rows, schema, orient="row")
    with_numbers = ordered.join(chosen, on=STRATUM, nulls_equal=True, maintain_order="left")
    return with_numbers.filter(pl.col("place") < pl.col("stratum_anchors"))


def replacements(anchors: pl.DataFrame, frame: pl.DataFrame, change_id: str) -> pl.DataFrame:
    """Return the next session of the stratum for each anchor that was replaced; some may be left.

    Args:
        anchors: All anchors of the change so far with ``replaced_because``.
        frame: The sessions of the dates that the anchors were drawn from, as they are now.
        change_id: The change.

    Returns:
        As ``draw``.
    """
    is_live = pl.col("replaced_because").is_null()
    strata = anchors.group_by(STRATUM).agg(
        pl.col("stratum_sessions", "stratum_anchors").first(),
        last=pl.col("place").max(),
        missing=pl.col("stratum_anchors").first().cast(pl.Int64) - is_live.sum().cast(pl.Int64),
    )
    rest = _ordered(frame.join(anchors, on=SESSION_KEY, how="anti"), change_id)
    rest = rest.join(strata, on=STRATUM, nulls_equal=True, maintain_order="left")
    at = pl.int_range(pl.len()).over(STRATUM)
    next_ones = rest.filter(at < pl.col("missing"))
    return next_ones.with_columns(place=pl.col("last") + 1 + at).drop("last", "missing")


def allocate(sizes: Mapping[Stratum, int], wanted: int) -> dict[Stratum, int]:
    """Return the number of anchors of each stratum, in proportion to its sessions.

    Each stratum has at least two if it has as many sessions; the largest remainders are rounded up.
    """
    total = sum(sizes.values())
    if total <= wanted:
        return dict(sizes)
    shares = {name: size * wanted / total for name, size in sizes.items()}
    least = {name: min(size, _LEAST_PER_STRATUM) for name, size in sizes.items()}
    chosen = {name: max(int(shares[name]), least[name]) for name in sizes}
    by_remainder = sorted(
        sizes, key=lambda name: (int(shares[name]) - shares[name], name[0], name[1] or "")
    )
    rounded_down = [name for name in by_remainder if chosen[name] < shares[name]]
    for name in rounded_down[: max(wanted - sum(chosen.values()), 0)]:
        chosen[name] += 1
    return chosen


def _ordered(frame: pl.DataFrame, change_id: str) -> pl.DataFrame:
    """Return sessions by stratum, in the random order of the change."""
    positions = [
        hashlib.sha256("\0".join((change_id, *key)).encode()).digest()
        for key in frame.select(SESSION_KEY).iter_rows()
    ]
    numbered = frame.with_columns(_position=pl.Series(positions, dtype=pl.Binary))
    return numbered.sort(*STRATUM, "_position").drop("_position")


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
        f"anchors scored by both judges for each of {changes.height} changes",
        f"{open_ones.height} changes without: run `evaluation-pipelines judge changes --anchors`",
        tuple(open_ones["change_id"].head(EXAMPLES)),
        "warning",
    )


ALIKE_IN_PARTS = 0.5
"""How much of what a person's sessions have in common they have in common in another part, too:
a working value, which decides degrees of freedom and small corrections but not what is right."""

WIDEST = 4.0
"""A half-width of the judge's part above this cuts the trend."""

PERIOD_DAYS = 4
"""Length of a period of ``period_means``."""

FEWEST_SCORES = 3
"""A period with fewer scores has no mean."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A figure in points with its error.

    Attributes:
        value: The figure.
        variance: Squared standard error; ``None`` for fewer than two people.
        freedom: Degrees of freedom of the variance.
        people: Number of people, the unknown ones left out.
    """

    value: float
    variance: float | None
    freedom: float
    people: int

    @property
    def half_width(self) -> float | None:
        """Half of the width of the 95% interval; ``None`` without a variance."""
        if self.variance is None:
            return None
        return t_quantile(self.freedom) * float(np.sqrt(self.variance))

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the figure and the ends of its 95% interval as columns of JUDGE_CHANGES."""
        half = self.half_width
        low, high = (None, None) if half is None else (self.value - half, self.value + half)
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}


@dataclass(frozen=True, slots=True)
class Part:
    """Sessions whose weighted mean is a part of a sum.

    Attributes:
        values: One per session, at least one.
        weights: Positive weight of each session.
        people: Person of each session, with the same numbers in all parts; all unknown ones
            (``UNKNOWN_PERSON``) of a part are one unit, which does not count as a person.
        sign: 1 or -1: whether the mean is added or taken away.
    """

    values: Numbers
    weights: Numbers
    people: Codes
    sign: int = 1


def sum_of_means(*parts: Part) -> Mean:
    """Return the sum of weighted means with errors of people, who may be the same in all of them.

    What a person adds to one mean and to another varies together, so that the errors of the same
    people before and after something cancel as far as these people are similar. Each person adds
    ``q`` to the error: a linear form of the means of all people, with the variance
    ``form @ working @ form'`` under the working variances.
    """
    # Who is unknown in one part is not who is unknown in another.
    codes = [
        np.where(part.people == UNKNOWN_PERSON, UNKNOWN_PERSON - at, part.people)
        for at, part in enumerate(parts)
    ]
    units = np.unique(np.concatenate(codes))
    shares, means, variances = np.zeros((3, len(parts), len(units)))
    common = np.zeros(len(parts))
    for at, (part, own) in enumerate(zip(parts, codes, strict=True)):
        there = np.isin(units, own)
        *cells, common[at] = _cells(part, own)
        shares[at, there], means[at, there], variances[at, there] = cells
    signs = np.array([part.sign for part in parts])
    value = float(signs @ np.sum(shares * means, axis=1))
    people = min(int(np.sum(np.unique(part.people) != UNKNOWN_PERSON)) for part in parts)
    if np.any(np.count_nonzero(shares, axis=1) < 2):
        return Mean(value, None, 0.0, people)
    # working[k, l, u]: covariance of the means of unit u in two parts.
    together = (shares > 0)[:, None] & (shares > 0)[None]
    working = ALIKE_IN_PARTS * np.sqrt(np.outer(common, common))[:, :, None] * together
    diagonal = np.arange(len(parts))
    working[diagonal, diagonal] = variances
    return Mean(value, *_error(signs[:, None] * shares, shares, means, working), people)


def _error(
    weights: Numbers, shares: Numbers, means: Numbers, working: Numbers
) -> tuple[float, float]:
    """Return the variance of a sum of means, and its degrees of freedom."""
    # forms[p, k, u]: what the mean of unit u in part k adds to q of person p.
    forms = -weights.T[:, :, None] * shares[None]
    units = np.arange(weights.shape[1])
    forms[units, :, units] += weights.T
    residuals = np.einsum("pku,ku->p", forms, means)
    spread = np.einsum("pku,klu,qlu->pq", forms, working, forms, optimize=True)
    factors = np.einsum("ku,klu,lu->u", weights, working, weights) / np.diag(spread)
    scaled = np.sqrt(np.outer(factors, factors)) * spread
    return float(factors @ residuals**2), float(np.trace(scaled) ** 2 / np.sum(scaled**2))


def _cells(part: Part, codes: Codes) -> tuple[Numbers, Numbers, Numbers, float]:
    """Return share, mean and working variance of each unit, and what its sessions share of it."""
    codes = np.unique(codes, return_inverse=True)[1]
    sums = np.bincount(codes, weights=part.weights)
    squares = np.bincount(codes, weights=part.weights**2)
    totals = np.bincount(codes, weights=part.weights * part.values)
    alike = _correlation(part.values, codes)
    scale = float(part.values.var()) or 1.0
    variances = scale * (alike + (1 - alike) * squares / sums**2)
    return sums / sums.sum(), totals / sums, variances, scale * alike


def _correlation(values: Numbers, codes: Codes) -> float:
    """Return the correlation of two values of a person, by the analysis of variance.

    Donner and Koval, "The estimation of intraclass correlation in the analysis of family data",
    1980. At least ``SMALLEST_CORRELATION``: few people say little about it.
    """
    sizes = np.bincount(codes)
    number, groups = len(values), len(sizes)
    if groups in {1, number}:
        return 1.0
    means = np.bincount(codes, weights=values) / sizes
    between = float(sizes @ (means - values.mean()) ** 2) / (groups - 1)
    within = float(np.sum((values - means[codes]) ** 2)) / (number - groups)
    typical = (number - float(sizes @ sizes) / number) / (groups - 1)
    total = between + (typical - 1) * within
    if total <= 0:
        return 1.0
    return min(max((between - within) / total, SMALLEST_CORRELATION), 1.0)


def split(anchors: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    """Split the shift between two judges into columns of JUDGE_CHANGES.

    Args:
        anchors: ``former_score``, ``new_score`` (means of the samples), ``weight``, ``person``
            (null if unknown), ``organization_id``, ``session_id``, ``session_date``; at least one.
        before: ``total_score`` by the former judge of the sessions before the change, and the
            columns of people and sessions.
        after: The same by the new judge of those after it.
    """
    (people, of_before, of_after), clustered_by = _units(anchors, before, after)
    weights = anchors["weight"].to_numpy()
    former, new = (anchors[name].to_numpy() for name in ("former_score", "new_score"))
    judges = sum_of_means(Part(new - former, weights, people))
    half = judges.half_width
    found = {
        "people": judges.people,
        "clustered_by": clustered_by,
        **judges.columns("judges_part"),
        "half_width": half,
        "former_anchor_score": float(np.average(former, weights=weights)),
        "new_anchor_score": float(np.average(new, weights=weights)),
        "before_score": before["total_score"].mean(),
        "before_sessions": before.height,
        "after_score": after["total_score"].mean(),
        "after_sessions": after.height,
        "trend": "bridged" if half is not None and half <= WIDEST else "cut",
        "reason": None,
    }
    if found["trend"] == "cut":
        rough = f"the judge's part is known to within {points(half)} points only"
        found["reason"] = "the anchors are of a single person" if half is None else rough
    if before.is_empty() or after.is_empty():
        return found
    more, less = (
        Part(side["total_score"].to_numpy().astype(np.float64), np.ones(side.height), who, sign)
        for side, who, sign in ((after, of_after, 1), (before, of_before, -1))
    )
    agents = sum_of_means(more, less, Part(new - former, weights, people, -1))
    shift = sum_of_means(more, less).value
    return {**found, "shift": shift, **agents.columns("agents_part")}


def _units(*frames: pl.DataFrame) -> tuple[list[Codes], str]:
    """Return what varies together in each frame: people, or sessions and days if too few are known.

    A session id is one within its organization; a person may be in several.
    """
    unknown = sum(frame["person"].null_count() for frame in frames)
    has_people = unknown <= LARGEST_UNKNOWN * sum(frame.height for frame in frames)
    session = pl.concat_str(
        "organization_id", "session_id", pl.col("session_date").cast(pl.String), separator="\0"
    )
    texts = [frame.select(unit="person" if has_people else session) for frame in frames]
    numbers = pl.concat(texts)["unit"].rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)
    ends = np.cumsum([frame.height for frame in frames])
    return np.split(numbers.to_numpy(), ends[:-1]), PEOPLE if has_people else SESSIONS


def period_means(scores: pl.DataFrame, changed_on: date) -> pl.DataFrame:
    """Return ``middle`` (days from the change), ``mean`` and ``sessions`` of periods of 4 days.

    None lies on both sides of the change. Those with fewer than three scores are left out.

    Args:
        scores: ``session_date`` and ``total_score``.
        changed_on: First day of the new judge: a period begins on it.
    """
    offset = (pl.col("session_date") - changed_on).dt.total_days()
    return (
        scores.group_by(middle=(offset.floordiv(PERIOD_DAYS) + 0.5) * PERIOD_DAYS)
        .agg(mean=pl.col("total_score").mean(), sessions=pl.len())
        .filter(pl.col("sessions") >= FEWEST_SCORES)
        .sort("middle")
    )
