"""Checks on one date of scorecards and session evaluations."""

from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import SESSION_KEY, Table
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.schemas.table import CheckResult, examples_of
from evaluation_pipelines.scorecards.domain.evaluation import EFFECTIVE_RANGE
from evaluation_pipelines.scorecards.domain.heuristics import unknown_criteria

_ROUNDING = 1e-9
"""How far a score may be outside its scale because of floating-point addition."""

_LOWEST, _HIGHEST = EFFECTIVE_RANGE[0] - _ROUNDING, EFFECTIVE_RANGE[1] + _ROUNDING


def cards_are_on_their_scale(cards: pl.DataFrame, table: Table) -> CheckResult:
    """Every score is on the scale of its profile, and every confidence is from 0 to 1."""
    low, high = pl.col("scale_min") - _ROUNDING, pl.col("scale_max") + _ROUNDING
    fits = pl.all_horizontal(
        pl.col("overall_score").is_between(low, high),
        pl.col("effective_score").is_between(low, high),
        pl.col("effective_100").is_between(_LOWEST, _HIGHEST),
        pl.col("confidence").is_between(0, 1),
    )
    broken = cards.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "cards_are_on_their_scale",
        broken.is_empty(),
        "every score on the scale of its profile, every confidence from 0 to 1",
        f"{broken.height} cards that are not",
        examples_of(broken.select("session_key", "profile_id", "overall_score", "confidence")),
    )


def every_card_has_its_session(
    cards: pl.DataFrame, sessions: pl.DataFrame, table: Table
) -> CheckResult:
    """Every card has a session window; a warning, since old cards are kept."""
    orphans = cards.join(sessions, on=SESSION_KEY, how="anti").select(*SESSION_KEY, "profile_id")
    return CheckResult(
        table.name,
        "every_card_has_its_session",
        orphans.is_empty(),
        "a session window for every card",
        f"{orphans.height} cards whose window no longer exists",
        examples_of(orphans.sort(pl.all())),
        "warning",
    )


def profiles_are_sound(faults: Sequence[str], table: Table) -> CheckResult:
    """Every profile file is usable; a warning, since the last valid version stays in use."""
    return CheckResult(
        table.name,
        "profiles_are_sound",
        not faults,
        "every profile file valid and with a correct version",
        f"{len(faults)} profile files that are not used",
        tuple(faults),
        "warning",
    )


def every_criterion_is_known(registry: Registry, table: Table) -> CheckResult:
    """Every criterion is computed or judged; a warning: an unknown one scores the midpoint."""
    newest = [each.profile for each in registry.newest() if each.profile.enabled]
    unknown = [
        f"{each.id} version {each.version}: {name}"
        for each in newest
        for name in unknown_criteria(each)
    ]
    return CheckResult(
        table.name,
        "every_criterion_is_known",
        not unknown,
        "every criterion computed or judged",
        f"{len(unknown)} unknown criteria, which always score the midpoint",
        tuple(unknown),
        "warning",
    )


def effective_scores_have_a_source(evaluations: pl.DataFrame, table: Table) -> CheckResult:
    """Every effective score is from 0 to 100 and has a source; no source without a score."""
    score, source = pl.col("effective_100"), pl.col("effective_source")
    has_source = source.is_in(EFFECTIVE_SOURCES) & (source != "none")
    fits = (
        pl.when(score.is_null())
        .then(source == "none")
        .otherwise(has_source & score.is_between(_LOWEST, _HIGHEST))
    )
    broken = evaluations.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "effective_scores_have_a_source",
        broken.is_empty(),
        "every effective score from 0 to 100 with its source, and no source without a score",
        f"{broken.height} sessions that break this rule",
        examples_of(broken.select("session_key", "effective_100", "effective_source")),
    )
