"""Outcomes of sessions by fixed rules, and arms compared by the share of good ones.

A session counts only when the horizon has passed and the source was read after that, also if the
outcome came early: otherwise all recent sessions would be good.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.compare import MIN_RUNS
from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    SMALLEST_ERROR,
    comparable,
    level_at,
)
from evaluation_pipelines.comparison.domain.people import (
    UNKNOWN_PERSON,
    Arm,
    Inference,
    apart_difference,
    paired_difference,
    people_mean,
)
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN, numbered
from evaluation_pipelines.comparison.domain.verdicts import ALPHA, NOT_EQUAL, holm
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import interval, percent, signed, whole
from evaluation_pipelines.numerics.estimates import Estimate, Share, share_of, t_quantile
from evaluation_pipelines.outcomes.domain.by_session import CONTRADICTED
from evaluation_pipelines.schemas import SESSION_KEY

OWN = "x_"
"""Prefix of a user's own outcomes."""

RARE = 10
"""With fewer sessions of the rarer value in an arm, Student's t alone is too narrow. If both arms
were counted together, 8 of 100 equal arms (40 people, 20 and 6 sessions, 98% good) would differ."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How rows of ``session_outcomes`` become the outcome of a session.

    Attributes:
        kind: Kind of the rows.
        words: What a value of 1 means.
        days: Horizon, from the end of the session, or from the merge if ``is_of_merged``.
        is_share: The value is a share, else 1 is good and 0 is bad.
        is_of_merged: Only merged sessions have it.
        is_bad: The kind happened to bad work: the value is turned.
        is_inside: It is seen in the session itself, so that a score only agrees with it.
    """

    kind: str
    words: str
    days: int = 0
    is_share: bool = False
    is_of_merged: bool = False
    is_bad: bool = False
    is_inside: bool = False

    @property
    def horizon(self) -> timedelta:
        """The horizon as a duration."""
        return timedelta(days=self.days)


RULES = {
    rule.kind: rule
    for rule in (
        Rule("merged", "merged within 14 days after its end", 14),
        Rule("reverted", "not reverted in 30 days", 30, is_of_merged=True, is_bad=True),
        *(
            Rule(f"survival_{n}d", f"lines alive after {n} days", n, True, True)  # noqa: FBT003
            for n in (1, 7, 30)
        ),
        Rule("task_closed", "its task was closed"),
        Rule("task_reopened", "its task was not reopened", is_bad=True),
        Rule("accepted", "a person accepted it", is_inside=True),
        Rule("commit", "it made a commit", is_inside=True),
        Rule("tests_after_last_edit", "tests passed after the last edit", is_inside=True),
    )
}


def rule_of(name: str) -> Rule:
    """Return the rule of an outcome.

    Raises:
        UserError: There is no such outcome.
    """
    if name in RULES:
        return RULES[name]
    if name.startswith(OWN) and name != OWN:
        return Rule(name, name)
    raise UserError(f"no outcome is named {name}: use {', '.join(RULES)} or a name with {OWN}")


def outcome_values(
    rows: pl.DataFrame, sessions: pl.DataFrame, rule: Rule, *, of_all: bool = False
) -> pl.DataFrame:
    """Return the outcome of sessions.

    Args:
        rows: Rows of ``session_outcomes``.
        sessions: SESSION_KEY and ``ended_at``.
        rule: The rule.
        of_all: Sessions without a commit are not merged, and a merge within the session counts:
            to compare arms. Otherwise a session needs a row, and what happened within it is no
            outcome that a score could predict.

    Returns:
        SESSION_KEY, ``value`` (null: not known yet), ``at`` (when it was decided), ``reference``
        (of several the first) and ``is_young`` (the horizon has not passed, or was not seen).
    """
    rows = _rows_of(rows, rule)
    facts = _facts(rows.filter(kind=rule.kind))
    found = sessions.select(*SESSION_KEY, "ended_at").join(facts, on=SESSION_KEY, how="left")
    start, happened = pl.col("ended_at"), pl.col("happened_at")
    has_value = pl.col("value").is_not_null()
    is_no_without_row = rule.is_bad if rule.is_of_merged else of_all and rule.days > 0
    if rule.is_of_merged:
        merges = _facts(rows.filter(kind="merged")).select(
            *SESSION_KEY, start="happened_at", of="reference"
        )
        found = found.join(merges, on=SESSION_KEY, how="left").with_columns(
            reference=pl.coalesce("of", "reference")
        )
        start = pl.col("start")
    if is_no_without_row:
        # The kind was read after the horizon and there is no row: it did not happen.
        read = facts.group_by("organization_id").agg(read=pl.col("read_at").max())
        found = found.join(read, on="organization_id", how="left").with_columns(
            read_at=pl.coalesce("read_at", "read")
        )
        has_value |= pl.col("has_timeless").is_null()
    has_row = has_value & start.is_not_null()
    deadline = start + rule.horizon
    # An outcome seen in the session itself is known, whenever its last call was.
    is_known = has_row & (pl.lit(rule.is_inside) | (pl.col("read_at") >= deadline))
    is_by_then = (happened <= deadline).fill_null(value=False)
    is_clear = is_by_then | ~pl.col("has_timeless").fill_null(value=False)
    by_then = pl.when(is_clear).then(is_by_then.cast(pl.Float64))
    value = by_then if rule.days and not rule.is_share else pl.col("value")
    is_within = pl.lit(value=False)
    if not (rule.is_inside or rule.is_of_merged or of_all):
        is_within = (happened <= pl.col("ended_at")).fill_null(value=False)
    if not (rule.days or rule.is_share or rule.kind.startswith(OWN)):
        value = (value >= 0.5).cast(pl.Float64)
    decided = pl.when(by_then == 1).then(happened).otherwise(deadline) if rule.days else happened
    return found.select(
        *SESSION_KEY,
        value=pl.when(is_known & ~is_within).then(1 - value if rule.is_bad else value),
        at=pl.coalesce(decided, "read_at"),
        reference="reference",
        is_young=(has_row & ~is_known & ~is_within).fill_null(value=False),
    )


def _rows_of(rows: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """Return the rows of a rule, without values where sources contradict.

    A source outside sends an outcome once and not again, so that its last reading in the
    organization holds for all of its rows. Without a time it happened before it came.
    """
    is_outside = pl.col("source") == "outside"
    happened_at, read_at = pl.col("happened_at"), pl.col("read_at")
    is_timeless = happened_at.is_null() & (pl.col("value") > 0)
    found = rows.filter(pl.col("kind").is_in([rule.kind, *["merged"] * rule.is_of_merged]))
    last = read_at.max().over("organization_id", "source")
    return found.with_columns(
        value=pl.when(~CONTRADICTED).then("value"),
        is_timeless=is_timeless,
        happened_at=pl.when(is_timeless & is_outside).then(read_at).otherwise(happened_at),
        read_at=pl.when(is_outside & pl.lit(rule.days > 0)).then(last).otherwise(read_at),
    )


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per session: mean value by lines, first time, last reading, reference.

    They are null if no row has a value.
    """
    weight, value = pl.col("lines").fill_null(1).cast(pl.Float64), pl.col("value")
    is_known = value.is_not_null()
    return rows.group_by(SESSION_KEY).agg(
        value=pl.when(is_known.any()).then((value * weight).sum() / weight.filter(is_known).sum()),
        happened_at=pl.col("happened_at").filter(value > 0).min(),
        has_timeless=(pl.col("is_timeless") & is_known).any(),
        read_at=pl.col("read_at").filter(is_known).max(),
        reference=pl.col("reference").filter(is_known).min(),
    )


@dataclass(frozen=True, slots=True)
class ShareDifference:
    """Difference of the mean outcomes of two arms, in which people weigh the same.

    Attributes:
        of_people: Student's t on people's shares.
        shares: Shares of both arms, whose Wilson intervals also count. None if t is enough.
    """

    of_people: Inference
    shares: tuple[Share, Share] | None

    def ends(self, alpha: float = ALPHA) -> tuple[float, float]:
        """Return the interval: at each end the wider of t, and MOVER of Wilson intervals."""
        value, error = self.of_people.value, self.of_people.error
        half = t_quantile(self.of_people.freedom, alpha) * error if error else 0.0
        down = up = half
        if self.shares is not None:
            (a, (low_a, high_a)), (b, (low_b, high_b)) = (
                (share.value, share.ends(alpha)) for share in self.shares
            )
            down = max(down, math.hypot(a - low_a, high_b - b))
            up = max(up, math.hypot(high_a - a, b - low_b))
        return value - down, value + up

    def p(self, limit: float = 0.0) -> float:
        """Return the two-sided p-value of a difference of ``limit``."""
        return level_at(self.ends, self.of_people.value, limit)


def share_difference(first: Arm, second: Arm) -> ShareDifference | str:
    """Return first minus second, or the reason why nothing can be decided.

    Args:
        first: Runs whose ``scores`` are outcomes, 0 to 1. All of one class.
        second: The same of the other arm.
    """
    for arm in (first, second):
        if len(arm) < MIN_RUNS or len(arm.known_people) < MIN_PEOPLE:
            return f"an arm needs {MIN_RUNS} sessions of {MIN_PEOPLE} people past the horizon"
        if np.mean(arm.people == UNKNOWN_PERSON) > LARGEST_UNKNOWN:
            return "the person of more than a fifth of the sessions is unknown"
    values = np.concatenate([first.scores, second.scores])
    if np.ptp(values) == 0:
        return "all outcomes are the same"
    a, b, is_paired = comparable(first, second, MIN_RUNS)
    found = (paired_difference if is_paired else apart_difference)(a, b)
    is_binary = bool(np.isin(values, (0, 1)).all())
    rarer = min(min(side.scores.sum(), (1 - side.scores).sum()) for side in (first, second))
    is_flat = found.error < SMALLEST_ERROR
    if not (is_flat or (is_binary and rarer < RARE)):
        return ShareDifference(found, None)
    shares = [share_of(side.scores, side.people, alike=True) for side in (a, b)]
    if not is_binary or shares[0] is None or shares[1] is None:
        return "no spread to judge the difference by"
    return ShareDifference(found, (shares[0], shares[1]))


@dataclass(frozen=True, slots=True)
class OutcomeArm:
    """An arm: its sessions past the horizon, their people, and the mean outcome."""

    name: str
    sessions: int
    people: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sessions of an arm that do not count: younger than the horizon, or of unknown outcome."""

    name: str
    young: int
    unknown: int


@dataclass(frozen=True, slots=True)
class OutcomePair:
    """Two arms: difference of first and second, its interval at the corrected level, and words."""

    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class OutcomeComparison:
    """Arms by the share of good outcomes, the best first, their pairs, and sessions left out."""

    rule: Rule
    arms: tuple[OutcomeArm, ...]
    pairs: tuple[OutcomePair, ...]
    left_out: tuple[LeftOut, ...]


def compare_outcomes(runs: pl.DataFrame, rule: Rule) -> OutcomeComparison:
    """Compare arms by an outcome: people weigh the same, verdicts share 5% by Holm's method.

    Args:
        runs: RUNS, whose ``model`` is the arm, with ``value`` and ``is_young`` of the outcome.
        rule: Its rule.
    """
    runs = runs.filter(pl.col("model").is_not_null())
    known = runs.filter(pl.col("value").is_not_null())
    sides = sides_of(known)
    is_young = pl.col("is_young").fill_null(value=False)
    others = runs.filter(pl.col("value").is_null()).group_by("model")
    left_out = others.agg(is_young.sum(), unknown=(~is_young).sum()).sort("model")
    arms = [_row(name, arm) for name, arm in sides.items()]
    arms.sort(key=lambda arm: (-(arm.share.value or 0), arm.name))
    names = [arm.name for arm in arms]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    found = [share_difference(sides[a], sides[b]) for a, b in pairs]
    tests = holm(
        [
            difference.p() if isinstance(difference, ShareDifference) else None
            for difference in found
        ]
    )
    levels = [ALPHA if test is None else test.level for test in tests]
    rows = zip(pairs, found, levels, strict=True)
    return OutcomeComparison(
        rule,
        tuple(arms),
        tuple(_pair(*row) for row in rows),
        tuple(LeftOut(*row) for row in left_out.iter_rows()),
    )


def sides_of(known: pl.DataFrame) -> dict[str, Arm]:
    """Return the arms of RUNS with a ``value`` of 0 to 1, by the name in ``model``."""
    return {
        str(name): Arm(
            frame["value"].to_numpy(),
            frame["person_number"].to_numpy(),
            *[np.zeros(frame.height, dtype=np.int64)] * 2,
        )
        for (name,), frame in numbered(known).group_by("model")
    }


def _row(name: str, arm: Arm) -> OutcomeArm:
    mean, share = people_mean(arm), share_of(arm.scores, arm.people, alike=True)
    shown = Estimate(mean.value)
    if share is not None and np.isin(arm.scores, (0, 1)).all():
        shown = Estimate(share.value, *share.ends())
    elif mean.freedom:
        half = t_quantile(mean.freedom) * mean.error
        shown = Estimate(mean.value, mean.value - half, mean.value + half).within(0, 1)
    return OutcomeArm(name, len(arm), len(arm.known_people), shown)


def _pair(names: tuple[str, str], found: ShareDifference | str, level: float) -> OutcomePair:
    if isinstance(found, str):
        return OutcomePair(*names, None, None, None, f"not decided: {found}")
    low, high = found.ends(level)
    better = names[0] if low > 0 else names[1] if high < 0 else None
    verdict = "not decided" if better is None else f"{better} is better"
    return OutcomePair(*names, found.of_people.value, low, high, verdict)


def sentences(found: OutcomeComparison) -> list[str]:
    """Return what a comparison by an outcome means."""
    left_out = [
        f"{out.name} {whole(number)} {why}"
        for out in found.left_out
        for number, why in (
            (out.young, "younger than the horizon"),
            (out.unknown, "without a known outcome"),
        )
        if number
    ]
    said = [f"Share of all sessions past the horizon: {found.rule.words}. People weigh the same."]
    if not found.arms:
        said = [f"No session of this time has a known outcome {found.rule.kind}."]
    if left_out:
        said.append(f"Sessions that do not count: {', '.join(left_out)}.")
    if any(pair.verdict.startswith("not decided") for pair in found.pairs):
        said.append(NOT_EQUAL)
    return said


_ARMS = ("arm", "share #", "95% interval", "sessions #", "people #")
_PAIRS = ("pair", "points #", "interval", "verdict")


def outcome_tables(
    found: OutcomeComparison,
) -> Iterator[tuple[str, Sequence[str], list[tuple[object, ...]]]]:
    """Yield title, headings and rows of the arms and of their pairs."""
    arms = [
        (
            *(arm.name, percent(arm.share.value)),
            interval(percent(arm.share.low), percent(arm.share.high)),
            *(arm.sessions, arm.people),
        )
        for arm in found.arms
    ]
    if arms:
        yield f"By outcome: {found.rule.kind}", _ARMS, [*arms]
    pairs = [
        (
            f"{pair.first} - {pair.second}",
            *(_points(pair.difference), interval(_points(pair.low), _points(pair.high))),
            pair.verdict,
        )
        for pair in found.pairs
    ]
    if pairs:
        yield "", _PAIRS, [*pairs]


def _points(share: float | None) -> str:
    return signed(None if share is None else 100 * share)
