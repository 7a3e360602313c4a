"""Rules that scorecards and session evaluations must keep."""

from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.schemas.checks import CheckResult, examples_of
from evaluation_pipelines.schemas.scorecards import EFFECTIVE_SOURCES
from evaluation_pipelines.scorecards.domain.heuristics import unknown_criteria

_ROUNDING = 1e-9
"""How far a score may lie outside its scale: what adding floats can do."""


def cards_are_on_their_scale(cards: pl.DataFrame, table: Table) -> CheckResult:
    """Every score lies on its profile's scale, and every confidence from 0 to 1."""
    low, high = pl.col("scale_min") - _ROUNDING, pl.col("scale_max") + _ROUNDING
    fits = pl.all_horizontal(
        pl.col("overall_score").is_between(low, high),
        pl.col("effective_score").is_between(low, high),
        pl.col("effective_100").is_between(-_ROUNDING, 100 + _ROUNDING),
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
    """Cards are of sessions that are still there; a warning, since old cards are kept."""
    keys = ["organization_id", "session_key"]
    orphans = cards.join(sessions, on=keys, how="anti").select(*keys, "profile_id")
    return CheckResult(
        table.name,
        "every_card_has_its_session",
        orphans.is_empty(),
        "a session window for every card",
        f"{orphans.height} cards of windows that are no more",
        examples_of(orphans.sort(pl.all())),
        "warning",
    )


def profiles_are_sound(faults: Sequence[str], table: Table) -> CheckResult:
    """Every profile file could be used; a warning, since the last good version counts on."""
    return CheckResult(
        table.name,
        "profiles_are_sound",
        not faults,
        "every profile file is valid and keeps the rules of versions",
        f"{len(faults)} that are not used",
        tuple(faults),
        "warning",
    )


def every_criterion_is_known(registry: Registry, table: Table) -> CheckResult:
    """Each criterion is computed or judged; a warning, since an unknown one scores the midpoint."""
    newest = [each.profile for each in registry.newest() if each.profile.enabled]
    strange = [
        f"{each.id} version {each.version}: {name}"
        for each in newest
        for name in unknown_criteria(each)
    ]
    return CheckResult(
        table.name,
        "every_criterion_is_known",
        not strange,
        "criteria that somebody computes or judges",
        f"{len(strange)} that score the midpoint, whatever was done",
        tuple(strange),
        "warning",
    )


def effective_scores_have_a_source(evaluations: pl.DataFrame, table: Table) -> CheckResult:
    """An effective score is from 0 to 100 and says where it is from; without a source is none."""
    score, source = pl.col("effective_100"), pl.col("effective_source")
    has_source = source.is_in(EFFECTIVE_SOURCES) & (source != "none")
    fits = (
        pl.when(score.is_null())
        .then(source == "none")
        .otherwise(has_source & score.is_between(-_ROUNDING, 100 + _ROUNDING))
    )
    broken = evaluations.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "effective_scores_have_a_source",
        broken.is_empty(),
        "every effective score from 0 to 100 with its source, and no source without a score",
        f"{broken.height} sessions where it is not so",
        examples_of(broken.select("session_key", "effective_100", "effective_source")),
    )
