"""Warm-up requests: no answered requests, and in no figure.

A request with ``generate=false`` fills the cache of the model server before the first answer, and
its response has no output. A later response without output is a request like others.
"""

import polars as pl

from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS

_PROGRAMS = [each.source_cli for each in DIALECTS if each.has_warm_ups]

_FIGURES = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"),
    *("reasoning_tokens", "cost_usd", "cost_source", "list_price_usd"),
)


def without_warm_ups(events: pl.DataFrame) -> pl.DataFrame:
    """Return deduplicated events in which warm-ups are no requests but ``other``, by that name.

    A sub-agent with a session of its own is warmed up before its own first answer.
    """
    is_request = pl.col("source_cli").is_in(_PROGRAMS) & (pl.col("event_name") == "api_request")
    responses = events.lazy().filter(is_request)
    if responses.filter(output_tokens=0).head(1).collect().is_empty():
        return events
    session = ("session_date", "organization_id", "session_id", "subagent_session_id")
    answers = responses.filter(pl.col("output_tokens") > 0)
    first_answers = answers.group_by(session).agg(answered_at=pl.min("event_time")).collect()
    joined = events.join(
        first_answers, on=session, how="left", nulls_equal=True, maintain_order="left"
    )
    is_warm_up = (
        joined.select(
            is_request
            & (pl.col("output_tokens") == 0)
            & (pl.col("answered_at").is_null() | (pl.col("event_time") < pl.col("answered_at")))
        )
        .to_series()
        .fill_null(value=False)
    )
    return events.with_columns(
        event_name=pl.when(is_warm_up).then(pl.lit("other")).otherwise("event_name"),
        source_event_name=pl.when(is_warm_up)
        .then(pl.lit("warm_up"))
        .otherwise("source_event_name"),
        **{name: pl.when(~is_warm_up).then(name) for name in _FIGURES},
    )
