"""Tables of the reputation of identities and agents."""

import polars as pl

from evaluation_pipelines.schemas.table import BLIND, UTC_TIME, Table, columns

_ATTRIBUTES = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
_BY_MODEL = pl.List(
    pl.Struct({"model": pl.String, "evaluations": pl.Int64, "pass_rate": pl.Float64})
)
_REJECTS = pl.List(pl.Struct({"line": pl.Int64, "reason": pl.String, "text": pl.String}))

SIGNAL_CATEGORIES = ("task_quality", "economic", "identity_hygiene")

REPUTATION_EVENTS = Table(
    name="reputation_events",
    grain="one row per signal about an identity",
    key=("event_id",),
    order=("timestamp", "event_id"),
    columns=columns(
        ("event_id", pl.String, "UUID. The same for the same signal, however often it is loaded"),
        ("timestamp", pl.Datetime("ms", "UTC"), "when it happened"),
        ("identity_id", pl.String, "UUID of whom it is about"),
        ("category", pl.String, "task_quality, economic or identity_hygiene"),
        ("event_type", pl.String, "such as task_completed or payment_failed"),
        ("score_delta", pl.Float64, "-1 to 1: how much it speaks for or against the identity"),
        ("confidence", pl.Float64, "0 to 1: how sure the source is"),
        ("reference_type", pl.String, "session, transaction or attestation"),
        ("reference_id", pl.String, "id of the subject"),
        ("attributes", _ATTRIBUTES, "further attributes from the source"),
    ),
)

AGENT_EVALUATIONS = Table(
    name="agent_evaluations",
    grain="one row per evaluation of an agent",
    key=("organization_id", "agent_id", "evaluation_id"),
    order=("organization_id", "agent_id", "evaluated_at", "evaluation_id"),
    columns=columns(
        ("evaluation_id", pl.String, "id of the evaluation, unique for its agent"),
        ("organization_id", pl.String, "organization of the agent"),
        ("agent_id", pl.String, "portable name of the agent within its organization"),
        ("evaluated_at", UTC_TIME, "when the evaluated work ended"),
        ("passed", pl.Boolean, "whether it was good enough"),
        ("latency_ms", pl.Float64, "how long it took, null when not known"),
        ("latency_budget_ms", pl.Float64, "how long it may take"),
        ("model", pl.String, "model behind the agent, null when not known"),
        ("source", pl.String, "session, or the integration that wrote it"),
        ("reference_id", pl.String, "id of the evaluated work"),
    ),
)

REPUTATION_SCORES = Table(
    name="reputation_scores",
    grain="one row per identity: its reputation over 90 days",
    key=("identity_id",),
    columns=columns(
        ("identity_id", pl.String, "UUID of whom the score is about (agent_scores names agents)"),
        ("computed_at", pl.Datetime("ms", "UTC"), "end of the 90 days when a value last changed"),
        (
            "overall_score",
            pl.Float64,
            "-1 to 1: 0.40 task quality + 0.35 economic + 0.25 hygiene",
            BLIND,
        ),
        (
            "task_quality_score",
            pl.Float64,
            "-1 to 1: mean delta of its signals, 0 without any",
            BLIND,
        ),
        ("economic_score", pl.Float64, "-1 to 1: mean delta of its signals, 0 without any", BLIND),
        (
            "identity_hygiene_score",
            pl.Float64,
            "-1 to 1: mean delta of its signals, 0 without any",
            BLIND,
        ),
        ("total_events", pl.Int64, "signals in the 90 days"),
        ("positive_events", pl.Int64, "signals with a delta above 0", BLIND),
        ("negative_events", pl.Int64, "signals with a delta below 0", BLIND),
        ("confidence", pl.Float64, "0 to 1: total_events / 100, at most 1"),
        (
            "score_7d_ago",
            pl.Float64,
            "overall score 7 days before, null without signals then",
            BLIND,
        ),
        (
            "score_30d_ago",
            pl.Float64,
            "overall score 30 days before, null without signals then",
            BLIND,
        ),
        (
            "overall_observed",
            pl.Float64,
            "weights rescaled to the categories that have signals",
            BLIND,
        ),
        ("categories_observed", pl.List(pl.String), "categories that have signals, sorted"),
        ("weighted_overall", pl.Float64, "overall, signals weighted by their confidence", BLIND),
    ),
)

AGENT_SCORES = Table(
    name="agent_scores",
    grain="one row per agent: 0 to 1000 over its last 500 evaluations",
    key=("organization_id", "agent_id"),
    columns=columns(
        ("organization_id", pl.String, "organization of the agent"),
        ("agent_id", pl.String, "portable name of the agent within its organization"),
        ("identity_id", pl.String, "UUID of its identity in reputation_scores"),
        ("score", pl.Int64, "0 to 1000, null while the agent is calibrating"),
        ("lifecycle", pl.String, "calibrating (1-49 evaluations), active (50-499) or mature"),
        ("eval_count", pl.Int64, "evaluations in the window"),
        ("evaluations_in_all", pl.Int64, "evaluations the agent ever had"),
        ("window_size", pl.Int64, "evaluations that the window holds at most"),
        ("pass_rate", pl.Float64, "share of passed evaluations"),
        ("pass_rate_low", pl.Float64, "lower end of its 90% credible interval, 0 if none passed"),
        ("pass_rate_high", pl.Float64, "upper end of its 90% credible interval, 1 if all passed"),
        ("avg_latency_ms", pl.Float64, "mean of known latencies"),
        ("streak", pl.Int64, "consecutive passes up to the latest evaluation"),
        (
            "score_30d_ago",
            pl.Int64,
            "the score as of 30 days before, null where there was none",
            BLIND,
        ),
        ("by_model", _BY_MODEL, "the window by model, most used first"),
        ("updated_at", UTC_TIME, "time that the score is of"),
    ),
)

AGENT_WINDOWS = Table(
    name="agent_windows",
    grain="one row per evaluation among an agent's last 500, as of the last refresh",
    key=AGENT_EVALUATIONS.key,
    order=AGENT_EVALUATIONS.order,
    columns=columns(
        *AGENT_EVALUATIONS.columns_named(
            "organization_id", "agent_id", "evaluation_id", "evaluated_at"
        ),
        *AGENT_EVALUATIONS.columns_named("passed", "latency_ms", "latency_budget_ms", "model"),
        *AGENT_SCORES.columns_named("evaluations_in_all"),
    ),
)

EXTERNAL_SIGNALS = Table(
    name="external_signals",
    grain="one row per file of signals or evaluations of other systems",
    key=("path",),
    columns=columns(
        ("path", pl.String, "path in the landing folder"),
        ("kind", pl.String, "signals or evaluations"),
        ("size_bytes", pl.Int64, "size of the file when it was read"),
        ("modified_at", UTC_TIME, "when the file had been changed last"),
        ("loaded_at", UTC_TIME, "when it was read"),
        ("store_made_at", UTC_TIME, "when the ClickHouse was set up that it was loaded into"),
        ("lines", pl.Int64, "lines that are not empty"),
        ("accepted", pl.Int64, "lines that are a signal or an evaluation"),
        ("repeated", pl.Int64, "accepted lines whose id stands in a later line of the same file"),
        ("retracted", pl.Int64, "lines that take a signal or an evaluation back"),
        ("withheld", pl.Int64, "lines retracted or forgotten before"),
        ("rejected", pl.Int64, "lines that cannot be used. The first of them follow"),
        ("unfinished", pl.Boolean, "the last line has no end yet, it is read when it has"),
        ("rejects", _REJECTS, "line number, reason and first letters of the first 10,000"),
    ),
)
