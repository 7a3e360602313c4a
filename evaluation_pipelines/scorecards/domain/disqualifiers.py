"""Disqualifiers: patterns in the texts of an agent that give a session the lowest score.

The search covers replies and parameters of tool calls, which the agent wrote. It does not cover
prompts, results and files, which the agent only read. The regular expression engine takes time
linear in the text (semantics of RE2), so that no pattern and no text can stall a run.
"""

from collections.abc import Sequence

import polars as pl

from evaluation_pipelines.schemas import SESSION_KEY

EVENT_COLUMNS = (
    "organization_id",
    "session_id",
    "event_id",
    "event_name",
    "content",
    "tool_parameters",
)
"""Columns of events with texts that say what was written, and in which session."""

IS_WRITTEN = (pl.col("event_name") == "assistant_response") | pl.col("has_parameters")
"""Condition on events: the agent may have written some of their texts."""

_SESSION = ["organization_id", "session_id"]
_EVENT = ["organization_id", "event_id"]

TRIGGERED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "disqualified": pl.Boolean(),
        "disqualifier_triggered": pl.String(),
    }
)

# Parameters are JSON text. Patterns match the text that the agent wrote, not its JSON escapes.
_ESCAPES = {
    "\\\\": "\\",
    '\\"': '"',
    "\\/": "/",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
}


def written_texts(
    events: pl.DataFrame, sessions: pl.DataFrame, window_events: pl.DataFrame
) -> pl.DataFrame:
    """Return the texts that agents wrote in each session window.

    Args:
        events: EVENT_COLUMNS.
        sessions: All windows, with ``organization_id, session_id, session_key``.
        window_events: ``organization_id, event_id, session_key`` of the events of sessions that
            have several windows.

    Returns:
        ``organization_id, session_key, text``.
    """
    replies = events.lazy().filter(event_name="assistant_response").rename({"content": "text"})
    calls = events.lazy().with_columns(text=pl.col("tool_parameters").str.replace_many(_ESCAPES))
    columns = [*_SESSION, "event_id", "text"]
    texts = pl.concat([replies.select(columns), calls.select(columns)]).drop_nulls("text")
    windows = sessions.lazy().group_by(_SESSION).agg(pl.len(), pl.first("session_key"))
    whole = windows.filter(len=1)
    found = [texts.join(whole, on=_SESSION, how="inner")]
    if not window_events.is_empty():
        of_event = window_events.lazy().select(*_EVENT, "session_key")
        found.append(texts.join(of_event, on=_EVENT).join(whole, on=_SESSION, how="anti"))
    return pl.concat([each.select(*SESSION_KEY, "text") for each in found]).collect()


def triggered(texts: pl.DataFrame, patterns: Sequence[str]) -> pl.DataFrame:
    """Return the first pattern, in list order, that occurs in each session: TRIGGERED.

    Sessions without texts have no row: whether they are disqualified is unknown.

    Args:
        texts: ``organization_id, session_key, text``.
        patterns: Regular expressions, validated by
            :func:`~evaluation_pipelines.profiles.domain.profile.check_pattern`.
    """
    first = pl.min_horizontal(
        pl.lit(None, pl.Int64),
        *(
            pl.when(pl.col("text").str.contains(pattern, strict=True)).then(number)
            for number, pattern in enumerate(patterns)
        ),
    )
    names = dict(enumerate(patterns))
    return (
        texts.lazy()
        .with_columns(first.alias("first"))
        .group_by(SESSION_KEY)
        .agg(pl.col("first").min())
        .select(
            *SESSION_KEY,
            disqualified=pl.col("first").is_not_null(),
            disqualifier_triggered=pl.col("first").replace_strict(
                names, default=None, return_dtype=pl.String
            ),
        )
        .cast(TRIGGERED)
        .sort(SESSION_KEY)
        .collect()
    )
