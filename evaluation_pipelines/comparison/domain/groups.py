"""Groups of sessions to compare: models, values of another property, or arms."""

from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.comparison.domain.runs import MODEL, RUNS, Nouns
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import whole
from evaluation_pipelines.schemas import MIXED, SESSION_KEY
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter, hint

_ATTRIBUTE = "attribute:"

NO_MASQUE = "no masque"
USUAL_VARIANT = "default settings"

_VALUES = {
    "model_variant": pl.col("model_variant").fill_null(USUAL_VARIANT),
    "agent": pl.col("agent_id"),
    # A window with several masques, or between two, is not the work of one.
    "masque": pl.when(pl.col("attribution").is_in(["mixed", "remainder"]))
    .then(pl.lit(MIXED))
    .otherwise(pl.col("masque").fill_null(NO_MASQUE)),
    "service_version": pl.col("service_version"),
    "branch": pl.col("branch"),
    "environment": pl.col("environment"),
}
"""Property of sessions -> its value in a row of AGENT_SESSIONS."""

_WORDS = {"model_variant": "variant", "service_version": "version"}

CHOICES = ("model", *_VALUES)
WHAT = f"{', '.join(CHOICES)} or {_ATTRIBUTE}NAME"


class GroupingError(UserError, ValueError):
    """Sessions cannot be compared by this."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How sessions are grouped for a comparison.

    Attributes:
        by: A name in CHOICES, or ``attribute:`` and the name of an attribute of sessions.
        arms: Names of arms with the sessions of each. Without arms, ``by`` counts.
    """

    by: str = "model"
    arms: tuple[tuple[str, SessionFilter], ...] = ()

    @property
    def compares_models(self) -> bool:
        """True if models are compared, with each variant as a model."""
        return self == BY_MODEL

    @property
    def nouns(self) -> Nouns:
        """Words for the groups."""
        if self.arms:
            return Nouns("arm")
        return Nouns(_WORDS.get(self.by, self.by.removeprefix(_ATTRIBUTE)))


BY_MODEL = Grouping()


def grouping(by: str) -> Grouping:
    """Return the grouping of a name as it was typed.

    Raises:
        GroupingError: Sessions have no such property.
    """
    if by in CHOICES or (by.startswith(_ATTRIBUTE) and by != _ATTRIBUTE):
        return Grouping(by)
    raise GroupingError(f"by {by!r}: choose {WHAT}")


def grouped(runs: pl.DataFrame, sessions: pl.DataFrame, by: Grouping) -> pl.DataFrame:
    """Return RUNS whose ``model`` is their group. ``provider`` is the program of a version.

    Runs in no arm are left out. A run without a value has none, as one of an unknown model.

    Args:
        runs: RUNS.
        sessions: The same windows of AGENT_SESSIONS, or more.
        by: The grouping.

    Raises:
        GroupingError: Arms overlap or are empty, or no session has the attribute.
    """
    if by.compares_models:
        return runs
    # Where it is not compared, a model may be any, also several.
    known = sessions.join(runs.select(SESSION_KEY), on=SESSION_KEY, how="semi")
    program = pl.col("source_cli") if by.by == "service_version" else pl.lit(None, pl.String)
    groups = (
        _in_arms(known, by)
        if by.arms
        else known.select(*SESSION_KEY, model=_value(known, by.by), provider=program)
    )
    return (
        runs.drop(MODEL)
        .join(groups, on=SESSION_KEY, how="inner", maintain_order="left")
        .with_columns(model_variant=pl.lit(None, pl.String))
        .select(RUNS.names())
    )


def _value(sessions: pl.DataFrame, by: str) -> pl.Expr:
    if by in _VALUES:
        return _VALUES[by]
    name = by.removeprefix(_ATTRIBUTE)
    known = set(sessions["session_attributes"].list.eval(_KEY).explode().drop_nulls())
    if name not in known:
        raise GroupingError(f"by {by!r}: no session has this attribute, {hint(name, known)}")
    return attribute(name)


_KEY = pl.element().struct.field("key")


def attribute(name: str) -> pl.Expr:
    """Return the value of an attribute of a row of AGENT_SESSIONS, null without one."""
    values = pl.element().filter(_KEY.eq(name)).struct.field("value")
    return pl.col("session_attributes").list.eval(values).list.first()


def _in_arms(sessions: pl.DataFrame, by: Grouping) -> pl.DataFrame:
    """Return SESSION_KEY with the arm as ``model``, for sessions in one."""
    parts = [
        sessions.filter(chosen.condition()).select(
            *SESSION_KEY, model=pl.lit(name), provider=pl.lit(None, pl.String)
        )
        for name, chosen in by.arms
    ]
    for (name, _), part in zip(by.arms, parts, strict=True):
        if part.is_empty():
            raise GroupingError(f"arm {name!r}: no session of this time is in it")
    found = pl.concat(parts)
    if twice := found.height - found.select(SESSION_KEY).n_unique():
        raise GroupingError(
            f"arms overlap: {whole(twice)} sessions are in more than one, and each must be in one"
        )
    return found
