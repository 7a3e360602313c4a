"""Baseline: tables of judges, their scores, anchors, batches and validations.

They stay as they are when the tables in the code change: later migrations start from here.
"""

import sqlalchemy as sa
from alembic import op


def create_tables() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "anchor_scores",
        sa.Column("score_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=True),
        sa.Column("agent_model", sa.String(), nullable=True),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("judge_profile_id", sa.String(), nullable=False),
        sa.Column("judge_profile_version", sa.Integer(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("prompt_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("score_triggered_by", sa.String(), nullable=False),
        sa.Column("scored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), nullable=True),
        sa.Column("completed_at_us", sa.BigInteger(), nullable=True),
        sa.Column("booked_at_us", sa.BigInteger(), nullable=True),
        sa.Column("takeovers", sa.Integer(), nullable=False),
        sa.Column("total_score", sa.Integer(), nullable=True),
        sa.Column("criteria_scores", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("failure_tags", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sample_totals", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sample_errors", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("score_spread", sa.Double(), nullable=True),
        sa.Column("score_analysis", sa.Text(), nullable=True),
        sa.Column("missing_tools_analysis", sa.Text(), nullable=True),
        sa.Column("missing_tools_error", sa.Text(), nullable=True),
        sa.Column("turn_log", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("retriable", sa.Boolean(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("judge_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.Column("reserved_cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=True),
        sa.Column("content_level", sa.String(), nullable=True),
        sa.Column("redactions", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("truncated", sa.Boolean(), nullable=True),
        sa.Column("injection_suspected", sa.Boolean(), nullable=True),
        sa.Column("inconsistent_total", sa.Boolean(), nullable=True),
        sa.Column("incomplete_criteria", sa.Boolean(), nullable=True),
        sa.Column("short_analysis", sa.Boolean(), nullable=True),
        sa.Column("numbers_from_reminder", sa.Boolean(), nullable=True),
        sa.Column("estimated_usage", sa.Boolean(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_expires_at_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("score_id", name="pk_anchor_scores"),
    )
    op.create_index(
        "anchor_scores_by_booking",
        "anchor_scores",
        ["booked_at_us", "score_id", "booked_cost_usd", "reserved_cost_usd", "lease_expires_at_us"],
        unique=False,
    )
    op.create_index("anchor_scores_by_session", "anchor_scores", ["session_key"], unique=False)
    op.create_index(
        "anchor_scores_one_open",
        "anchor_scores",
        [
            "organization_id",
            "session_key",
            "judge_profile_id",
            "judge_profile_version",
            "judge_model",
            "prompt_hash",
        ],
        unique=True,
        sqlite_where=sa.text("status IN ('pending', 'in_progress')"),
        postgresql_where=sa.text("status IN ('pending', 'in_progress')"),
    )
    op.create_table(
        "judge_anchors",
        sa.Column("change_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("classification_label", sa.String(), nullable=False),
        sa.Column("agent_model", sa.String(), nullable=True),
        sa.Column("stratum_sessions", sa.Integer(), nullable=False),
        sa.Column("stratum_anchors", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("replaced_because", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(
            "change_id", "organization_id", "session_key", name="pk_judge_anchors"
        ),
    )
    op.create_table(
        "judge_batches",
        sa.Column("batch_id", sa.String(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("input_file_id", sa.String(), nullable=True),
        sa.Column("provider_batch_id", sa.String(), nullable=True),
        sa.Column("provider_status", sa.String(), nullable=True),
        sa.Column("output_file_ids", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("completed_requests", sa.Integer(), nullable=False),
        sa.Column("failed_requests", sa.Integer(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.Column("submitting_at_us", sa.BigInteger(), nullable=True),
        sa.Column("polled_at_us", sa.BigInteger(), nullable=True),
        sa.Column("expected_by_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_us", sa.BigInteger(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_expires_at_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", name="pk_judge_batches"),
    )
    op.create_index("judge_batches_by_state", "judge_batches", ["state"], unique=False)
    op.create_table(
        "judge_bridges",
        sa.Column("change_id", sa.String(), nullable=False),
        sa.Column("frame_since", sa.Date(), nullable=False),
        sa.Column("frame_until", sa.Date(), nullable=False),
        sa.Column("frame_sessions", sa.Integer(), nullable=False),
        sa.Column("drawn_at_us", sa.BigInteger(), nullable=False),
        sa.Column("refusal", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("change_id", name="pk_judge_bridges"),
    )
    op.create_table(
        "judge_validations",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("prompt_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("set_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), nullable=False),
        sa.Column("completed_at_us", sa.BigInteger(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_at_us", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_judge_validations"),
    )
    op.create_index(
        "judge_validations_by_booking", "judge_validations", ["booked_at_us"], unique=False
    )
    op.create_table(
        "rubric_texts",
        sa.Column("prompt_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("score_template", sa.Text(), nullable=False),
        sa.Column("missing_tools_template", sa.Text(), nullable=False),
        sa.Column("criteria", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("first_used_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("prompt_hash", name="pk_rubric_texts"),
    )
    op.create_table(
        "session_scores",
        sa.Column("score_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=True),
        sa.Column("agent_model", sa.String(), nullable=True),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("judge_profile_id", sa.String(), nullable=False),
        sa.Column("judge_profile_version", sa.Integer(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("rubric", sa.String(), nullable=False),
        sa.Column("prompt_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("score_triggered_by", sa.String(), nullable=False),
        sa.Column("scored_at_us", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), nullable=True),
        sa.Column("completed_at_us", sa.BigInteger(), nullable=True),
        sa.Column("booked_at_us", sa.BigInteger(), nullable=True),
        sa.Column("takeovers", sa.Integer(), nullable=False),
        sa.Column("total_score", sa.Integer(), nullable=True),
        sa.Column("criteria_scores", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("failure_tags", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sample_totals", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sample_errors", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("score_spread", sa.Double(), nullable=True),
        sa.Column("score_analysis", sa.Text(), nullable=True),
        sa.Column("missing_tools_analysis", sa.Text(), nullable=True),
        sa.Column("missing_tools_error", sa.Text(), nullable=True),
        sa.Column("turn_log", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("retriable", sa.Boolean(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("judge_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.Column("reserved_cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_ms", sa.Double(), nullable=True),
        sa.Column("content_level", sa.String(), nullable=True),
        sa.Column("redactions", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("truncated", sa.Boolean(), nullable=True),
        sa.Column("injection_suspected", sa.Boolean(), nullable=True),
        sa.Column("inconsistent_total", sa.Boolean(), nullable=True),
        sa.Column("incomplete_criteria", sa.Boolean(), nullable=True),
        sa.Column("short_analysis", sa.Boolean(), nullable=True),
        sa.Column("numbers_from_reminder", sa.Boolean(), nullable=True),
        sa.Column("estimated_usage", sa.Boolean(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_expires_at_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("score_id", name="pk_session_scores"),
    )
    op.create_index(
        "session_scores_by_booking",
        "session_scores",
        ["booked_at_us", "score_id", "booked_cost_usd", "reserved_cost_usd", "lease_expires_at_us"],
        unique=False,
    )
    op.create_index("session_scores_by_date", "session_scores", ["session_date"], unique=False)
    op.create_index("session_scores_by_prompt", "session_scores", ["prompt_hash"], unique=False)
    op.create_index("session_scores_by_session", "session_scores", ["session_key"], unique=False)
    op.create_index(
        "session_scores_by_session_status",
        "session_scores",
        ["session_key", "status"],
        unique=False,
    )
    op.create_index("session_scores_by_status", "session_scores", ["status"], unique=False)
    op.create_index(
        "session_scores_by_status_start",
        "session_scores",
        ["status", "started_at_us"],
        unique=False,
    )
    op.create_index("session_scores_by_total", "session_scores", ["total_score"], unique=False)
    op.create_index(
        "session_scores_one_open",
        "session_scores",
        ["organization_id", "session_key", "judge_profile_id", "judge_model"],
        unique=True,
        sqlite_where=sa.text("status IN ('pending', 'in_progress')"),
        postgresql_where=sa.text("status IN ('pending', 'in_progress')"),
    )
    op.create_table(
        "tool_priorities",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("period_start", sa.Date(), nullable=False),
        sa.Column("period_end", sa.Date(), nullable=False),
        sa.Column("judge_model", sa.String(), nullable=False),
        sa.Column("asked_at_us", sa.BigInteger(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("judge_cost_usd", sa.Double(), nullable=True),
        sa.Column("booked_cost_usd", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint(
            "organization_id", "period_start", "period_end", name="pk_tool_priorities"
        ),
    )
    op.create_index("tool_priorities_by_time", "tool_priorities", ["asked_at_us"], unique=False)
