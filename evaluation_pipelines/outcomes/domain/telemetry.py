"""Outcomes in telemetry itself: commits, tests after the last edit, answers of people."""

import re
from collections.abc import Mapping

import polars as pl

from evaluation_pipelines.outcomes.domain.commands import Patterns, Role, patterns, role
from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines.schemas.sessions import ToolCalls

FEEDBACK: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("feedback_survey", "response"): {"good": 1, "bad": 0},
    ("user_feedback", "rating"): {"3": 1, "1": 0},
    ("user.feedback", "rating"): {"positive": 1, "negative": 0},
    ("edit.feedback", "outcome"): {"accepted": 1, "rejected": 0},
    ("edit.hunk.action", "outcome"): {"accepted": 1, "rejected": 0},
    ("inline.done", "accepted"): {"true": 1, "false": 0},
    ("task.feedback", "feedbackType"): {"thumbs_up": 1, "thumbs_down": 0},
    ("task.ai_output.accepted", "source"): {"human": 1},
    ("task.ai_output.rejected", "source"): {"human": 0},
    ("coding_agent.edit.decision", "coding_agent.edit.decision"): {"accept": 1, "reject": 0},
}
"""Event and attribute -> answer of a person -> ``accepted``: 1 yes, 0 no, others are no answer.

Those with ``edit.`` and ``inline.`` are of Copilot Chat, as in
https://github.com/microsoft/vscode-copilot-chat, ``src/platform/otel/common/genAiEvents.ts``. Those
with ``coding_agent.`` are of OpenLIT. An edit accepted by a policy is ``auto_accepted`` there.
"""

_COMMIT_EVENTS = {"commit": "sha", "coding_agent.git.commit": "coding_agent.git.commit.sha"}
"""Event -> attribute with the id of a commit."""


def telemetry_outcomes(calls: ToolCalls, own_commands: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return the outcomes of session windows by what happened in them.

    Args:
        calls: Calls and outcomes of whole sessions.
        own_commands: Further commands that run tests, like TEST_COMMANDS.

    Returns:
        SESSION_OUTCOMES, without order. ``read_at`` is the last call or outcome of the window.
    """
    rows = calls.rows.filter(pl.col("kind").is_in(("call", "outcome")))
    done = rows.filter(kind="call").filter(pl.col("outcome").is_in(("ok", "failed", "unknown")))
    found = pl.concat([_commits(rows), _feedback(rows), _last_tests(done, patterns(own_commands))])
    read_at = calls.rows.group_by("window_no").agg(read_at=pl.col("event_time").max())
    return (
        found.join(calls.windows, on="window_no")
        .join(read_at, on="window_no")
        .with_columns(
            lines=pl.lit(None, pl.Int64), source=pl.lit("telemetry"), inferred=pl.lit(value=False)
        )
        .select(SESSION_OUTCOMES.schema.names())
        .cast(SESSION_OUTCOMES.schema)
    )


_FOUND = ("window_no", "kind", "happened_at", "value", "reference")


def _commits(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the commits of calls that succeeded, and of events that name one."""
    is_call = (pl.col("kind") == "call") & (pl.col("outcome") == "ok")
    sent = pl.coalesce(
        [
            pl.when(pl.col("tool") == event).then(_sent(name))
            for event, name in _COMMIT_EVENTS.items()
        ]
    )
    commits = rows.with_columns(
        reference=pl.when(is_call).then("reference").when(kind="outcome").then(sent)
    ).filter(pl.col("reference").str.contains(r"^[0-9a-f]{6,64}$"))
    return (
        commits.group_by("window_no", "reference")
        .agg(happened_at=pl.col("event_time").min())
        .with_columns(kind=pl.lit("commit"), value=pl.lit(1.0))
        .select(_FOUND)
    )


def _sent(name: str) -> pl.Expr:
    return pl.col("attributes").str.json_path_match(f"$['{name}']").str.to_lowercase()


def _feedback(rows: pl.DataFrame) -> pl.DataFrame:
    answers = pl.coalesce(
        [
            pl.when(pl.col("tool") == event).then(
                _sent(name).replace_strict(dict(values), default=None, return_dtype=pl.Float64)
            )
            for (event, name), values in FEEDBACK.items()
        ]
    )
    return (
        rows.filter(kind="outcome")
        .with_columns(kind=pl.lit("accepted"), happened_at="event_time", value=answers)
        .filter(pl.col("value").is_not_null())
        .select(_FOUND)
    )


def _last_tests(calls: pl.DataFrame, known: Patterns) -> pl.DataFrame:
    """Return whether the last tests passed that ran after the last edit of each window.

    A window without edits has nothing to test. If the exit code is not that of the tests, nothing
    is known.
    """
    is_edit = pl.col("tool_class").is_in(("edit", "write")) & (pl.col("outcome") != "failed")
    edits = _last(calls.filter(is_edit)).rename({"position": "edited"})
    is_shell = pl.col("tool_class") == "shell"
    text = pl.when(is_shell).then("parameters").otherwise("tool")
    may_run = text.str.contains("|".join(map(re.escape, known)))
    runs = _with_roles(calls.filter(may_run, ~is_edit), known).filter("tests")
    last_run = runs.sort("position").group_by("window_no").last()
    shells = calls.filter(is_shell, pl.col("outcome") != "failed").join(
        last_run.select("window_no", tested="position"), on="window_no"
    )
    # An edit by a command matters after the tests, or where no other edit is known.
    maybe = shells.join(edits, on="window_no", how="left").filter(
        (pl.col("position") >= pl.col("tested")) | pl.col("edited").is_null()
    )
    by_command = _last(_with_roles(maybe, known).filter("edits"))
    edited = pl.concat([edits, by_command.rename({"position": "edited"})])
    return (
        edited.group_by("window_no")
        .agg(pl.col("edited").max())
        .join(last_run, on="window_no", how="left")
        .with_columns(is_after=(pl.col("position") >= pl.col("edited")).fill_null(value=False))
        .filter(~pl.col("is_after") | pl.col("decide") & (pl.col("outcome") != "unknown"))
        .select(
            "window_no",
            pl.lit("tests_after_last_edit").alias("kind"),
            pl.when("is_after").then("event_time").alias("happened_at"),
            pl.when("is_after").then((pl.col("outcome") == "ok").cast(pl.Float64)).alias("value"),
            pl.lit(None, pl.String).alias("reference"),
        )
    )


def _last(calls: pl.DataFrame) -> pl.DataFrame:
    return calls.group_by("window_no").agg(pl.col("position").max())


def _with_roles(calls: pl.DataFrame, known: Patterns) -> pl.DataFrame:
    """Return calls with the fields of Role, which is found once for equal calls."""
    kinds = calls.select("tool", "tool_class", "parameters").unique(maintain_order=True)
    roles = [role(name, which, given, known) for name, which, given in kinds.iter_rows()]
    found = pl.DataFrame(roles, schema=dict.fromkeys(Role._fields, pl.Boolean), orient="row")
    return calls.join(kinds.hstack(found), on=kinds.columns, nulls_equal=True)
