"""Disqualifiers: patterns in what an agent wrote that make a session worth the lowest score.

Searched are replies and parameters of tool calls, never what the agent only read: prompts, results
and files are other people's words. The engine is linear in the text (semantics of RE2), so that no
pattern and no text can stop a run.
"""

from collections.abc import Sequence

import polars as pl

KEYS = ["organization_id", "session_key"]
EVENT_COLUMNS = (
    "organization_id",
    "session_id",
    "event_time",
    "event_name",
    "content",
    "tool_parameters",
)
"""What is read of ``agent_events``."""

TRIGGERED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "disqualified": pl.Boolean(),
        "disqualifier_triggered": pl.String(),
    }
)

# Parameters are JSON text: a pattern is meant for what the agent wrote, not for how JSON spells it.
_ESCAPES = {
    "\\\\": "\\",
    '\\"': '"',
    "\\/": "/",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
}


def written_texts(events: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """What agents wrote in some sessions: ``organization_id, session_key, text``.

    An event belongs to the last window of its session that had begun by then, else to the first.

    Args:
        events: EVENT_COLUMNS of ``agent_events``.
        sessions: with ``organization_id, session_id, session_key, started_at``; all windows.
    """
    reply = pl.when(pl.col("event_name") == "assistant_response").then(pl.col("content"))
    parameters = pl.col("tool_parameters").str.replace_many(_ESCAPES)
    texts = (
        events.select(
            "organization_id", "session_id", "event_time", text=pl.concat_list(reply, parameters)
        )
        .explode("text")
        .filter(pl.col("text").is_not_null())
        .sort("event_time")
    )
    by = ["organization_id", "session_id"]
    windows = sessions.select(*by, "session_key", "started_at").sort("started_at")
    first = windows.unique(by, keep="first").select(*by, first_key="session_key")
    placed = texts.join_asof(
        windows, left_on="event_time", right_on="started_at", by=by, check_sortedness=False
    ).join(first, on=by, how="inner")
    return placed.select(
        "organization_id",
        session_key=pl.coalesce("session_key", "first_key"),
        text="text",
    )


def triggered(texts: pl.DataFrame, patterns: Sequence[str]) -> pl.DataFrame:
    """The first pattern, in list order, that occurs in each session with texts: TRIGGERED.

    Sessions without any text are not there: nothing is known of them.

    Args:
        texts: ``organization_id, session_key, text``.
        patterns: checked by :func:`~evaluation_pipelines.profiles.domain.profile.check_pattern`.
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
        texts.with_columns(first.alias("first"))
        .group_by(KEYS)
        .agg(pl.col("first").min())
        .select(
            *KEYS,
            disqualified=pl.col("first").is_not_null(),
            disqualifier_triggered=pl.col("first").replace_strict(
                names, default=None, return_dtype=pl.String
            ),
        )
        .cast(TRIGGERED)
        .sort(KEYS)
    )
