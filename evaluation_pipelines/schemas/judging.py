"""Tables of judge scores and of missing tools."""

import polars as pl

from evaluation_pipelines.schemas.judge_score import lake_columns
from evaluation_pipelines.schemas.table import UTC_TIME, Table, columns

JUDGE_SCORES = Table(
    has_texts=True,
    name="judge_scores",
    grain="one row per scoring of a session window by the judge, as the ledger has it",
    key=("score_id",),
    order=("organization_id", "session_key", "scored_at", "score_id"),
    columns=columns(*lake_columns()),
)

TOOL_EXAMPLES = pl.List(pl.Struct({"session_key": pl.String, "rationale": pl.String}))

MISSING_TOOLS = Table(
    has_texts=True,
    name="missing_tools",
    grain="one row per tool that judges say was missing, and period of 28 days",
    key=("organization_id", "period_start", "tool"),
    order=("organization_id", "period_start", "tool"),
    columns=columns(
        ("organization_id", pl.String, "organization"),
        ("period_start", pl.Date, "first UTC day: sessions that began on it or later"),
        ("period_end", pl.Date, "UTC day after the last one"),
        ("tool", pl.String, "name as the judges write it, normalized by the rule of docs/judging"),
        ("sessions", pl.Int64, "session windows in whose newest answers it is named"),
        ("asked_sessions", pl.Int64, "session windows with an answer that could be read, any tool"),
        ("mentions", pl.Int64, "how often it is named in these answers"),
        ("agent_models", pl.List(pl.String), "models of the agents that lacked it, sorted"),
        ("judge_models", pl.List(pl.String), "models that named it, sorted"),
        ("masques", pl.List(pl.String), "personas that lacked it, sorted. Baseline for none"),
        ("examples", TOOL_EXAMPLES, "up to 3 sessions, the newest first, with the rationale cut"),
        ("first_date", pl.Date, "session date on which it was first missed in the period"),
        ("last_date", pl.Date, "session date on which it was last missed"),
    ),
)

_LOW, _HIGH = "lower end of its 95% interval", "upper end of its 95% interval"

JUDGE_CHANGES = Table(
    name="judge_changes",
    grain="one row per change of the judge of a profile: its model, rubric or profile version",
    key=("change_id", "changed_on"),
    order=("judge_profile_id", "changed_on", "change_id"),
    columns=columns(
        ("change_id", pl.String, "hash of both judges. `judge changes --anchors` takes it"),
        ("judge_profile_id", pl.String, "judge profile"),
        ("changed_on", pl.Date, "first session date of the new judge, null: none scored yet"),
        ("former_profile_version", pl.Int64, "profile version of the former judge"),
        ("former_model", pl.String, "its model"),
        ("former_rubric", pl.String, "its rubric"),
        ("former_prompt_hash", pl.String, "wording of its rubric"),
        ("new_profile_version", pl.Int64, "profile version of the new judge"),
        ("new_model", pl.String, "its model"),
        ("new_rubric", pl.String, "its rubric"),
        ("new_prompt_hash", pl.String, "wording of its rubric"),
        ("state", pl.String, "measured, incomplete, not drawn, or impossible"),
        ("trend", pl.String, "bridged: scores before may be shifted by judges_part, or cut"),
        ("reason", pl.String, "why the trend is cut, null where it is bridged"),
        ("anchors", pl.Int64, "sessions that both judges score, or are to score"),
        ("anchors_scored", pl.Int64, "those that both have scored"),
        ("anchors_replaced", pl.Int64, "drawn sessions that others had to replace"),
        ("frame_sessions", pl.Int64, "sessions that the anchors were drawn from"),
        ("people", pl.Int64, "people of the anchors, unknown ones left out"),
        ("clustered_by", pl.String, "person, or session and day if people are unknown"),
        ("judges_part", pl.Float64, "new minus former judge on the same sessions, in points"),
        ("judges_part_low", pl.Float64, _LOW),
        ("judges_part_high", pl.Float64, _HIGH),
        ("half_width", pl.Float64, "half of that interval: above 2 wide, above 4 the trend is cut"),
        ("former_anchor_score", pl.Float64, "mean score of the anchors by the former judge"),
        ("new_anchor_score", pl.Float64, "mean score of the anchors by the new judge"),
        ("before_score", pl.Float64, "mean score by the former judge, up to 28 days before"),
        ("before_sessions", pl.Int64, "sessions in it"),
        ("after_score", pl.Float64, "mean score by the new judge, up to 28 days after"),
        ("after_sessions", pl.Int64, "sessions in it"),
        ("shift", pl.Float64, "after_score - before_score"),
        ("agents_part", pl.Float64, "shift - judges_part: what the agents did differently"),
        ("agents_part_low", pl.Float64, _LOW),
        ("agents_part_high", pl.Float64, _HIGH),
        ("cost_usd", pl.Float64, "cost of scoring the anchors, null if a price is unknown"),
        ("drawn_at", UTC_TIME, "when the anchors were drawn"),
        ("computed_at", UTC_TIME, "when this row was made"),
    ),
)

JUDGE_ANCHORS = Table(
    name="judge_anchors",
    grain="one row per session that was drawn to be scored by both judges of a change",
    key=("change_id", "organization_id", "session_key"),
    order=("change_id", "classification_label", "agent_model", "place"),
    columns=columns(
        ("change_id", pl.String, "the change"),
        ("organization_id", pl.String, "organization"),
        ("session_key", pl.String, "the session window"),
        ("session_date", pl.Date, "UTC day the session began"),
        ("classification_label", pl.String, "label: part of the stratum"),
        ("agent_model", pl.String, "model of the agent: part of the stratum"),
        ("stratum_sessions", pl.Int64, "sessions of the stratum to draw from"),
        ("stratum_anchors", pl.Int64, "anchors drawn from them"),
        ("probability", pl.Float64, "probability of being drawn: the quotient of both"),
        ("place", pl.Int64, "place in the random order of the stratum, from 0"),
        ("former_score", pl.Float64, "mean of the former judge's samples, null until scored"),
        ("new_score", pl.Float64, "mean of the new judge's samples, null until scored"),
        ("difference", pl.Float64, "new_score - former_score"),
        ("replaced_because", pl.String, "why another session took its place, null if it counts"),
    ),
)
