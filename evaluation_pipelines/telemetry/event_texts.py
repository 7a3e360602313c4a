"""Events together with their texts, for the few readers that need what was written."""

from collections.abc import Sequence
from datetime import date

import polars as pl

from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    EVENT_TEXTS_LANDED,
    EVENTS_WITH_TEXTS,
    TEXT_KEY,
    TEXTS,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.telemetry.domain.organizations import NO_ORGANIZATION

_TEXT_OF = ("organization_id", *TEXT_KEY)


def read_events_with_texts(
    lake: Lake,
    day: date,
    where: pl.Expr | None = None,
    columns: Sequence[str] = tuple(EVENTS_WITH_TEXTS),
    events_where: pl.Expr | None = None,
) -> pl.DataFrame:
    """Read events of a date with their texts, in the order of ``agent_events``.

    Args:
        lake: The lake.
        day: Session date.
        where: Condition on session_id or event_id; all events without.
        columns: Columns of EVENTS_WITH_TEXTS to return.
        events_where: Condition on columns of AGENT_EVENTS, in place of ``where`` for them.

    Raises:
        LakeError: A file cannot be read.
    """
    texts = [name for name in columns if name in TEXTS]
    needed = {*columns, *_TEXT_OF, *(["error_event_id"] if "error" in texts else [])}
    figures = [name for name in AGENT_EVENTS.schema if name in needed]
    events = lake.read(
        AGENT_EVENTS, [day], figures, where if events_where is None else events_where
    )
    logged = lake.read(EVENT_TEXTS_LANDED, [day], [*_TEXT_OF, *texts], where)
    # A line that was retried lands its texts again.
    once = _with_texts(events.lazy(), logged.lazy(), texts).unique(
        AGENT_EVENTS.key, keep="first", maintain_order=True
    )
    return once.select(columns).collect()


def _with_texts(events: pl.LazyFrame, logged: pl.LazyFrame, texts: list[str]) -> pl.LazyFrame:
    """Return events with their texts, in order: those of their organization, else of none."""
    is_named = pl.col("organization_id") != NO_ORGANIZATION
    named = logged.filter(is_named).rename({name: f"{name} named" for name in texts})
    unnamed = logged.filter(~is_named | is_named.is_null()).drop("organization_id")
    joined = events.join(unnamed, on=TEXT_KEY, how="left", maintain_order="left").join(
        named.with_columns(has_named=pl.lit(value=True)),
        on=_TEXT_OF,
        how="left",
        maintain_order="left",
    )
    whole = joined.with_columns(
        pl.when("has_named").then(f"{name} named").otherwise(name).alias(name) for name in texts
    )
    if "error" not in texts:
        return whole
    within = logged.filter(pl.col("error").is_not_null()).select(
        error_event_id="event_id", error_within="error"
    )
    found = whole.join(
        within.unique("error_event_id"), on="error_event_id", how="left", maintain_order="left"
    )
    return found.with_columns(error=pl.coalesce("error", "error_within"))


def prompts_with(lake: Lake, day: date, words: str) -> pl.DataFrame:
    """Return ``organization_id``, ``session_id`` and ``event_id`` of prompts with ``words``.

    Capital letters make no difference.

    Args:
        lake: The lake.
        day: Session date.
        words: Text that the prompt contains as it is.

    Raises:
        LakeError: A file cannot be read.
    """
    is_said = pl.col("content").str.to_lowercase().str.contains(words.lower(), literal=True)
    said = lake.read(EVENT_TEXTS_LANDED, [day], ["organization_id", "event_id"], is_said).unique()
    is_prompt = (pl.col("event_name") == "user_prompt") & pl.col("event_id").is_in(
        said["event_id"].unique().implode()
    )
    names = ["organization_id", "session_id", "event_id"]
    prompts = lake.read(AGENT_EVENTS, [day], names, is_prompt)
    by = pl.col("organization_id_right")
    is_theirs = (by == pl.col("organization_id")) | (by == NO_ORGANIZATION)
    return prompts.join(said, on="event_id").filter(is_theirs).select(names).unique()
