"""Which scores predict an outcome, within people: areas under the curve, families and words.

A score is compared with an outcome in pairs of units of one person, task class and repository.
``A`` of a person is the share of pairs in which the better outcome has the higher score, ties as
half. The AUC is the mean of A over people, who are the independent units. An AUC of all sessions
together is above 0.5 if people differ in both, even if nothing predicts within them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.verdicts import ALPHA, POWER, weighted_holm
from evaluation_pipelines.formatting import interval, number, points, signed, whole
from evaluation_pipelines.numerics.estimates import (
    Codes,
    Estimate,
    Numbers,
    normal_quantile,
    t_quantile,
    two_sided_p,
)

COIN = 0.5
MIN_PAIRS = 4
"""A person with fewer pairs is left out."""

MIN_PEOPLE, MIN_INDICATED = 5, 3
MIN_RARER, MIN_SHARES = 10, 30
"""Units of the rarer class, and units with shares, for a verdict."""

SHARE_GAP = 0.1
"""Shares must differ by more than this to be a pair."""

EQUIVALENT = 0.05
"""An interval within this of 0.5 shows that a score is next to worthless."""

GOOD_AUC = 0.70

_GROWTH = 1.5
"""Units of the rarer class grow by it from look to look."""

_PAIRS_AT_ONCE = 4_000_000

PREDICTS, WRONG_WAY = "predicts", "predicts the wrong way"
COIN_LIKE = "no better than a coin, within 5"
NOT_DECIDED, INDICATION, NOTHING = "not decided", "indication", "too few"


@dataclass(frozen=True, slots=True)
class Units:
    """Units of work with a known outcome: sessions, or all sessions of one reference.

    Attributes:
        people: Person of each, from 0.
        strata: Person, task class and repository of each, numbered together.
        values: Outcome: 1 good, 0 bad, or a share.
        is_share: Whether outcomes are shares.
    """

    people: Codes
    strata: Codes
    values: Numbers
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """How well a score predicts an outcome.

    Attributes:
        by_person: A of each person that counts, by person.
        noise: Sum of the variances of A over people if nothing but chance were in them, for an AUC
            of 0.5.
        units: Units in the pairs of these people.
        rarer: Units of the rarer class among them. Half of the units for shares.
        one_sided: People left out because all their outcomes are equal, or too few pairs.
    """

    by_person: Mapping[int, float]
    noise: float
    units: int
    rarer: int
    one_sided: int
    is_share: bool = False

    @property
    def people(self) -> int:
        """Number of people, the independent units."""
        return len(self.by_person)

    @property
    def auc(self) -> float | None:
        """Mean of A, 0-1. None without people."""
        return sum(self.by_person.values()) / self.people if self.people else None

    @property
    def errors(self) -> tuple[float, float]:
        """Standard errors of the AUC: by the spread of people, and by chance alone.

        That of chance is ``sqrt(sum v 4 a (1 - a)) / G`` with ``a = (sum A + 1) / (G + 2)``: people
        whose A are all 1 differ by chance, too.
        """
        number, values = self.people, np.array([*self.by_person.values()])
        near = (float(values.sum()) + 1) / (number + 2)
        spread = float(values.std(ddof=1)) / math.sqrt(number)
        return spread, math.sqrt(self.noise * 4 * near * (1 - near)) / number

    def interval(self, alpha: float = ALPHA) -> Estimate:
        """Return the AUC with its interval, without ends for fewer than two people.

        It is the wider one of Student's t by the spread of people, and of the normal distribution
        by chance alone.
        """
        if self.people < 2 or self.auc is None:
            return Estimate(self.auc)
        spread, chance = self.errors
        half = max(
            t_quantile(self.people - 1, alpha) * spread, normal_quantile(1 - alpha / 2) * chance
        )
        return Estimate(self.auc, self.auc - half, self.auc + half).within(0, 1)

    @property
    def p(self) -> float:
        """Two-sided p-value of an AUC of 0.5."""
        if self.people < 2 or self.auc is None:
            return 1.0
        spread, chance = self.errors
        off = self.auc - COIN
        by_people = two_sided_p(off, spread, self.people - 1) if spread else 0.0
        return max(by_people, two_sided_p(off, chance, math.inf))

    @property
    def is_enough(self) -> bool:
        """True if there is enough for a verdict."""
        enough = self.units >= MIN_SHARES if self.is_share else self.rarer >= MIN_RARER
        return self.people >= MIN_PEOPLE and enough

    def people_needed(self, level: float) -> int:
        """Return the people like these with whom an AUC of 0.70 is found in 4 of 5 cases.

        ``(z(1 - level / 2) + z(0.8))² s² / 0.2² + z² / 4`` with the variance s² of a person's A
        (the last term for Student's t, as Guenther has it).
        """
        z = normal_quantile(1 - level / 2)
        variance = max(self.errors) ** 2 * self.people
        needed = (z + normal_quantile(POWER)) ** 2 * variance / (GOOD_AUC - COIN) ** 2 + z**2 / 4
        return max(math.ceil(needed), MIN_PEOPLE)


def predictions(units: Units, scores: Numbers) -> list[Prediction]:
    """Return how well each score predicts the outcome.

    Args:
        units: Units with their outcome.
        scores: A row per unit, a column per score, NaN if a unit has none.
    """
    number = int(units.people.max()) + 1 if len(units.people) else 0
    hits, pairs, good, bad = np.zeros((4, number, scores.shape[1]))
    for person, found in _by_stratum(units, scores):
        for total, part in zip((hits, pairs, good, bad), found, strict=True):
            total[person] += part
    return [
        _prediction(units, *(array[:, column] for array in (hits, pairs, good, bad)))
        for column in range(scores.shape[1])
    ]


def _by_stratum(units: Units, scores: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield a person, and hits, pairs, good and bad units of each score in one stratum."""
    order = np.argsort(units.strata, kind="stable")
    ends = np.flatnonzero(np.diff(units.strata[order])) + 1
    gap = SHARE_GAP if units.is_share else 0.0
    for block in np.split(order, ends):
        values = units.values[block]
        better, worse = np.nonzero(values[:, None] - values[None, :] > gap)
        if not len(better):
            continue
        step = max(_PAIRS_AT_ONCE // len(better), 1)
        parts = [
            _compared(scores[block, start : start + step], better, worse, units)
            for start in range(0, scores.shape[1], step)
        ]
        yield int(units.people[block[0]]), np.concatenate(parts, axis=1)


def _compared(scores: Numbers, better: Codes, worse: Codes, units: Units) -> Numbers:
    first, second = scores[better], scores[worse]
    known = ~np.isnan(first) & ~np.isnan(second)
    hits = (first > second) + 0.5 * (first == second)
    good, bad = np.zeros((2, *scores.shape), dtype=np.bool_)
    np.logical_or.at(good, better, known)
    np.logical_or.at(bad, worse, known)
    if units.is_share:  # the better unit of one pair may be the worse one of another
        good = bad = (good | bad) / 2
    return np.array([matrix.sum(axis=0, dtype=np.float64) for matrix in (hits, known, good, bad)])


def _prediction(
    units: Units, hits: Numbers, pairs: Numbers, good: Numbers, bad: Numbers
) -> Prediction:
    counted = np.flatnonzero(pairs >= MIN_PAIRS)
    first, second = good[counted], bad[counted]
    noise = float(np.sum((first + second + 1) / (12 * first * second)))
    rarer = min(first.sum(), second.sum())
    return Prediction(
        {int(person): float(hits[person] / pairs[person]) for person in counted},
        noise,
        int(first.sum() + second.sum()),
        int(rarer),
        len(np.unique(units.people)) - len(counted),
        units.is_share,
    )


def difference(first: Prediction, second: Prediction) -> Estimate | None:
    """Return how much better one score predicts than another, by people who count for both.

    Student's t on the differences of A. None for fewer than two people or without any spread.
    """
    both = first.by_person.keys() & second.by_person.keys()
    gains = np.array(
        [first.by_person[person] - second.by_person[person] for person in sorted(both)]
    )
    if len(gains) < 2 or np.ptp(gains) == 0:
        return None
    center = float(gains.mean())
    half = t_quantile(len(gains) - 1) * float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return Estimate(center, center - half, center + half).within(-1, 1)


def step_of(rarer: int) -> int:
    """Return how many of 10, 15, 22.5, ... the units of the rarer class have reached.

    Verdicts change only with a new step: the look at a step is independent of what it shows.
    """
    return int(math.log(rarer / MIN_RARER, _GROWTH) + 1e-9) + 1 if rarer >= MIN_RARER else 0


def look_level(look: int, before: int, spent: float) -> float:
    """Return the level of a look: its part of what the looks until ``before`` left of 5%.

    By look ``k``, at ``n = 10 * 1.5 ** (k - 1)`` units of the rarer class, the share
    ``(n / (n + 20)) ** 4`` is spent: early looks find only clear predictions.
    """
    used = _used(before)
    return (ALPHA - spent) * (_used(look) - used) / (1 - used)


def _used(look: int) -> float:
    units = MIN_RARER * _GROWTH ** (look - 1)
    return float((units / (units + 20)) ** 4) if look else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a prediction shows.

    Attributes:
        word: One of the words of this module.
        level: The interval is one of ``1 - level``.
        interval: AUC, 0-1.
    """

    word: str
    level: float
    interval: Estimate


def verdicts(
    found: Sequence[Prediction], is_primary: Sequence[bool], level: float
) -> list[Verdict]:
    """Return the verdict of each prediction at a look.

    Half of the level is for the primary ones, half for all others, each by Holm's method.

    Args:
        found: Predictions, tested together.
        is_primary: Which have a main score and the outcome set beforehand.
        level: Level of the look. With 0 nothing is decided.
    """
    half, levels = level / 2, dict[int, float]()
    for of_primary in (True, False) if level else ():
        places = [
            place
            for place, (prediction, primary) in enumerate(zip(found, is_primary, strict=True))
            if primary is of_primary and prediction.is_enough
        ]
        p_values = [found[place].p for place in places]
        tests = weighted_holm(p_values, [1.0] * len(places), half)
        levels |= {place: test.level for place, test in zip(places, tests, strict=True)}
    return [_verdict(prediction, levels.get(place)) for place, prediction in enumerate(found)]


def _verdict(found: Prediction, level: float | None) -> Verdict:
    if level is None:
        is_some = found.people >= MIN_INDICATED
        shown = found.interval() if is_some else Estimate()
        return Verdict(INDICATION if is_some else NOTHING, ALPHA, shown)
    shown = found.interval(level)
    low, high = shown.low or 0.0, shown.high or 0.0
    if low > COIN:
        word = PREDICTS
    elif high < COIN:
        word = WRONG_WAY
    elif low >= COIN - EQUIVALENT and high <= COIN + EQUIVALENT:
        word = COIN_LIKE
    else:
        word = NOT_DECIDED
    return Verdict(word, level, shown)


PRIMARY, OTHER, AGREEMENT = "primary", "other", "agreement"
"""Families of predictions: the main scores by the outcome set beforehand, all others, and
agreement of a score with an outcome in the transcript."""

HEADINGS = ("Score", "Outcome", "AUC #", "Interval", "Verdict", "Against composite")


def lines(rows: pl.DataFrame) -> list[tuple[str, ...]]:
    """Return the HEADINGS of OUTCOME_PREDICTIONS, the primary family first, agreements last."""
    order = pl.col("family").replace_strict({PRIMARY: 0, OTHER: 1, AGREEMENT: 2})
    distance = (pl.col("auc") - COIN).abs().fill_null(-1)
    ordered = rows.sort(order, distance, "outcome", "score", descending=[False, True, False, False])
    return [_line(row) for row in ordered.iter_rows(named=True)]


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    auc, low, high = (
        number(None if end is None else 100 * end, 0)
        for end in (row["auc"], row["auc_low"], row["auc_high"])
    )
    gain, worst, best = (
        signed(None if end is None else 100 * end, 0)
        for end in (row["gain"], row["gain_low"], row["gain_high"])
    )
    against = "" if row["gain"] is None else f"{gain} ({worst} to {best})"
    return row["score"], row["outcome"], auc, interval(low, high), _words(row), against


def _words(row: dict[str, Any]) -> str:
    facts = f"{whole(row['people'])} people, {whole(row['units'])} sessions"
    may_be_shares = row["rarer"] >= row["units"] // 2  # these have no rarer result
    if not may_be_shares:
        facts += f", {whole(row['rarer'])} with the rarer result"
    if row["family"] == AGREEMENT:
        return "agreement with the transcript"
    if row["verdict"] in {PREDICTS, WRONG_WAY, COIN_LIKE}:
        return str(row["verdict"])
    if row["verdict"] == INDICATION and row["people_needed"] is not None:  # enough, but no look
        few = "too few sessions of the primary outcome for a look"
        return f"{INDICATION} only: {few} (this outcome: {facts})"
    if row["verdict"] == INDICATION and may_be_shares:
        needed = f"{MIN_PEOPLE} people and {2 * MIN_RARER} sessions are needed"
        return f"{INDICATION}: {facts} ({needed}, {MIN_SHARES} of a share)"
    if row["people_needed"] is None or row["people_needed"] <= row["people"]:
        return f"{row['verdict']}: {facts}"
    settle = f"about {whole(row['people_needed'])} people would settle an AUC of 70"
    return f"{row['verdict']}: {facts}, {settle}"


def _look_words(look: int) -> str:
    if look:
        grown = "the primary outcome's sessions with the rarer result (all of a share) grow by half"
        return f"Look {look}: verdicts change when {grown}."
    return (
        "No verdicts yet: the primary outcome (EVAL_PRIMARY_OUTCOME) needs "
        f"{MIN_RARER} sessions of known people with its rarer result ({2 * MIN_RARER} of a share)."
    )


def notes(rows: pl.DataFrame) -> list[str]:
    """Return what must be read with OUTCOME_PREDICTIONS of an organization."""
    if rows.is_empty():
        return ["No session has an outcome after its end yet, or no two of a person differ in it."]
    row = rows.sort(pl.col("family") != PRIMARY, "outcome", "score").row(0, named=True)
    every = row["people"] + row["left_out"]
    young = f"{whole(row['young'])} sessions are younger than the horizon and do not count yet."
    with_, without = points(row["score_with"]), points(row["score_without"])
    known = f"{whole(row['with_outcome'])} of {whole(row['sessions'])}"
    return [
        (
            f"The outcome {row['outcome']} is known for {known} sessions, with a mean automatic "
            f"score of {with_}. The others have {without}."
        ),
        *([young] if row["young"] else []),
        (
            f"Based on the {whole(row['people'])} of {whole(every)} people with both results. "
            "Sessions of one pull request count once."
        ),
        (
            "People may have acted on these scores. The judge may have read signs of "
            "the outcome. Not decided means too little data."
        ),
        (
            "AUC: of two sessions of a person, how often the better outcome has the higher score, "
            "50 is a coin. Intervals are corrected for all verdicts. " + _look_words(row["look"])
        ),
    ]
