"""Runs to compare, one per session window, and the numbers that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON, Arm
from evaluation_pipelines.numerics.estimates import Codes
from evaluation_pipelines.schemas import MIXED, UTC_TIME
from evaluation_pipelines.scorecards.domain.evaluation import failed_at_start


@dataclass(frozen=True, slots=True)
class Nouns:
    """What is compared, and what has a score, as sentences, headings and reasons name them."""

    model: str = "model"
    session: str = "session"

    @property
    def models(self) -> str:
        """The plural."""
        return f"{self.model}{'es' if self.model.endswith(('s', 'x', 'ch', 'sh')) else 's'}"

    @property
    def sessions(self) -> str:
        """The plural."""
        return f"{self.session}s"

    @property
    def a_model(self) -> str:
        """The name with its article."""
        return f"{'an' if self.model[0] in 'aeiou' else 'a'} {self.model}"


MODELS = Nouns()

GROUP = ("classification_label", "profile_id", "profile_version", "effective_source")
"""Columns of a group; only runs of the same group are compared."""

MODEL = ("model", "provider", "model_variant")
"""Columns that name what is compared: variants of a model are as different as two models."""

PERSON = "person_id"
"""Column of ``agent_sessions`` that distinguishes people."""

RUNS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "session_id": pl.String(),
        "classification_label": pl.String(),
        "profile_id": pl.String(),
        "profile_version": pl.Int64(),
        "effective_source": pl.String(),
        "model": pl.String(),
        "provider": pl.String(),
        "model_variant": pl.String(),
        "task_class": pl.String(),
        "repository": pl.String(),
        "started_at": UTC_TIME,
        "score": pl.Float64(),
        "people_score": pl.Float64(),
        "is_disqualified": pl.Boolean(),
        "cost_usd": pl.Float64(),
        "total_tokens": pl.Int64(),
        "active_ms": pl.Float64(),
        "person": pl.String(),
        "failed_at_start": pl.Boolean(),
        "status": pl.String(),
        "reason": pl.String(),
        "agent_id": pl.String(),
        "masque": pl.String(),
        "tools_ok": pl.Int64(),
        "tools_failed": pl.Int64(),
        "quality_risk": pl.Boolean(),
        "risk_profile_id": pl.String(),
        "disqualified": pl.Boolean(),
        "card_id": pl.String(),
        "judge_model": pl.String(),
        "judge_flags": pl.String(),
    }
)
"""``score`` and its source, profile and card are those without overrides: a run that people scored
stays among the runs it is compared with, and ``people_score`` is what they said. Only a run without
an automatic score has the source ``override``; one without any has ``none`` and a ``reason``.

``disqualified`` is what was found (null: unknown), ``is_disqualified`` what counts;
``quality_risk`` is that of the effective score, people's first, under ``risk_profile_id``.
``person`` is the ``person_id``, one person in all organizations, and is never shown. A run that
``failed_at_start`` failed before any tool call: its score is 0, and it stands in the largest group
of its label, so that a model that fails at once does not look better for it.
"""

_SESSION = ["organization_id", "session_key"]
_FACTS = (
    *(PERSON, "model_variant", "repository", "cost_usd", "total_tokens", "active_s"),
    *("tools_ok", "tools_failed", "tools_unknown"),
)
_BY_PROFILE = ("override", "scorecard", "judge")


def runs_of(evaluations: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS of session windows, sorted by start.

    Composites and statuses belong to no profile, so profile changes do not split their runs. A run
    of several variants of a model is ``mixed``, as one of several models.

    Args:
        evaluations: Rows of ``session_evaluations``.
        sessions: The same windows of ``agent_sessions``.
    """
    facts = sessions.select(*_SESSION, *_FACTS)
    is_automatic = pl.col("automatic_100").is_not_null()
    said = pl.col("effective_source") == "override"
    is_mixed = pl.col("model_variant") == MIXED
    runs = (
        evaluations.join(facts, on=_SESSION, how="left", validate="1:1")
        .with_columns(
            risk_profile_id="profile_id",
            model=pl.when(is_mixed).then(pl.lit(MIXED)).otherwise("model"),
            model_variant=pl.when(~is_mixed).then("model_variant"),
            people_score=pl.when(said).then("effective_100"),
            score=pl.coalesce("automatic_100", "effective_100"),
            effective_source=pl.when(is_automatic)
            .then("automatic_source")
            .otherwise("effective_source"),
        )
        .with_columns(
            profile_id=pl.when(_is_judged()).then("profile_id"),
            profile_version=pl.when(_is_judged()).then("profile_version"),
            is_disqualified=pl.col("disqualified").fill_null(value=False),
            active_ms=pl.col("active_s") * 1000,
            person=PERSON,
            failed_at_start=(pl.col("effective_source") == "status") & failed_at_start(),
        )
        .select(RUNS.names())
        .cast(RUNS)
        .sort("started_at", *_SESSION)
    )
    return _with_failures(runs)


def _with_failures(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs with those that failed at the start in the largest group of their label.

    Groups are compared within an organization if that has one with scores, since its profile is
    the one that would have scored the run. Without any other scored run the failures stay apart.
    """
    scored = runs.filter(pl.col("score").is_not_null(), ~pl.col("failed_at_start"))
    label = ["organization_id", GROUP[0]]
    sizes = scored.group_by(*label, *GROUP[1:]).len().sort("len", *GROUP[1:], descending=True)
    largest = sizes.unique(label, keep="first", maintain_order=True).drop("len")
    found = runs.join(
        largest.with_columns(has_group=pl.lit(value=True)),
        on=label,
        how="left",
        suffix="_of_label",
        maintain_order="left",
    )
    moves = pl.col("failed_at_start") & pl.col("has_group").fill_null(value=False)
    return found.with_columns(
        pl.when(moves).then(f"{name}_of_label").otherwise(name).alias(name) for name in GROUP[1:]
    ).select(RUNS.names())


def _is_judged() -> pl.Expr:
    return pl.col("effective_source").is_in(_BY_PROFILE)


LARGEST_UNKNOWN = 0.2
"""If the people of more runs of a side are unknown, sessions and days are clusters instead."""

PEOPLE, SESSIONS = "person", "session and day"


@dataclass(frozen=True, slots=True)
class Arms:
    """Runs of some models; ``clustered_by`` says what is taken to vary together."""

    sides: tuple[Arm, ...]
    clustered_by: str


def numbered(runs: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS with numbers of people, sessions of a day, task classes and days."""
    session = pl.concat_str("organization_id", "session_id", _DAY, separator="\0")
    return runs.with_columns(
        person_number=_ranked(pl.col("person")),
        session_number=_ranked(session),
        class_number=_ranked(pl.col("task_class").fill_null("unknown")),
        day=_DAY,
    )


def arms_of(sides: Sequence[pl.DataFrame]) -> Arms:
    """Return runs of some models for a comparison.

    Args:
        sides: RUNS with a score, ``numbered`` together.
    """
    has_people = all(side["person"].null_count() <= LARGEST_UNKNOWN * side.height for side in sides)
    unit = "person_number" if has_people else "session_number"
    names = ("score", unit, "class_number", "day")
    arms = tuple(Arm(*(side[name].to_numpy() for name in names)) for side in sides)
    return Arms(arms, PEOPLE if has_people else SESSIONS)


_DAY = (
    pl.col("started_at").cast(pl.Datetime("us")) - datetime(1970, 1, 1)  # noqa: DTZ001 - UTC
).dt.total_days()


def _ranked(text: pl.Expr) -> pl.Expr:
    return text.rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)


def weeks_of(arm: Arm) -> Codes:
    """Return the week of each run; weeks begin on Monday."""
    # Day 0 is a Thursday.
    weeks: Codes = (arm.days + 3) // 7
    return weeks
