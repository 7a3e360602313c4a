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
    figures = [name for name in AGENT_EVENTS.schema if name in columns or name in TEXT_KEY]
    events = lake.read(
        AGENT_EVENTS, [day], figures, where if events_where is None else events_where
    )
    logged = lake.read(EVENT_TEXTS_LANDED, [day], [*TEXT_KEY, *texts], where)
    joined = events.lazy().join(logged.lazy(), on=TEXT_KEY, how="left", maintain_order="left")
    # A line that was retried lands its texts again.
    once = joined.unique(AGENT_EVENTS.key, keep="first", maintain_order=True)
    return once.select(columns).collect()


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
    said = lake.read(EVENT_TEXTS_LANDED, [day], ["event_id"], is_said)
    is_prompt = (pl.col("event_name") == "user_prompt") & pl.col("event_id").is_in(
        said["event_id"].unique().implode()
    )
    return lake.read(AGENT_EVENTS, [day], ["organization_id", "session_id", "event_id"], is_prompt)
