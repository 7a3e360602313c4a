"""Evaluations of agents that programs send to the service one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.reputation.domain.agent_score import (
    WINDOW_SIZE,
    agent_record,
    agent_scores,
    unknown_agent,
    withheld,
)
from evaluation_pipelines.reputation.domain.signals import GATE_BUDGET_MS, is_plausible
from evaluation_pipelines.schemas import AGENT_WINDOWS

Source = Literal["sdk", "proxy", "rest"]

MAX_NAME_CHARACTERS = 1024
MAX_AHEAD = timedelta(minutes=5)
"""How far a clock may be ahead; what lies further ahead would not count in any window yet."""


class EvaluationError(UserError, ValueError):
    """An evaluation cannot be used; the message says what is wrong with it."""


class EvaluationConflictError(EvaluationError):
    """The agent has another evaluation with this id."""


class AmbiguousAgentError(UserError):
    """Agents of several organizations have this id; ``organizations`` names them."""

    def __init__(self, agent_id: str, organizations: Sequence[str]) -> None:
        self.organizations = tuple(organizations)
        super().__init__(f"{agent_id} is an agent of several organizations")


@dataclass(frozen=True, slots=True)
class SubmittedEvaluation:
    """An evaluation as it was sent; ``None`` for what was not sent.

    Without an id it gets a new one, without a time the current one. Latencies are in milliseconds.
    """

    organization_id: str
    agent_id: str
    passed: bool
    evaluation_id: str | None = None
    evaluated_at: datetime | None = None
    latency_ms: float | None = None
    latency_budget_ms: float | None = None
    model: str | None = None
    source: Source | None = None

    def completed(self, evaluation_id: str, now: datetime) -> dict[str, Any]:
        """Return the row to store: as sent, with defaults for the rest.

        Raises:
            EvaluationError: A name is empty, too long or has a NUL, or the time is implausible.
        """
        for name in ("organization_id", "agent_id", "evaluation_id", "model"):
            _check_name(name, getattr(self, name))
        time = now if self.evaluated_at is None else self.evaluated_at.astimezone(UTC)
        if not is_plausible(time, now) or time > now + MAX_AHEAD:
            raise EvaluationError("evaluated_at lies before 2000 or more than 5 minutes ahead")
        return {
            "evaluation_id": evaluation_id,
            "latency_budget_ms": GATE_BUDGET_MS,
            "latency_ms": None,
            "model": None,
            "source": "rest",
            **self.said(),
            "evaluated_at": time,
        }

    def said(self) -> dict[str, Any]:
        """Return what was sent, without what was left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def is_in(self, row: Mapping[str, Any]) -> bool:
        """Return whether a stored row has all that was sent: it is this evaluation, sent again."""
        return all(row[name] == value for name, value in self.said().items())


def inline_record(
    exported: pl.DataFrame, submitted: pl.DataFrame, agent: tuple[str, str], now: datetime
) -> dict[str, Any]:
    """Return the record of an agent as consumers see it, with its newest evaluations.

    Args:
        exported: The window of the agent at the last refresh: AGENT_WINDOWS.
        submitted: Its newest 500 evaluations from the ledger, counted before or not: the same
            columns, ``evaluations_in_all`` is ignored.
        agent: Organization and agent.
        now: Time of the record.

    Returns:
        The record of :func:`agent_record`.
    """
    window = inline_window(exported, submitted)
    rows = withheld(agent_scores(window, window.clear(), now)).to_dicts()
    return agent_record(rows[0]) if rows else unknown_agent(*agent, now)


def inline_window(exported: pl.DataFrame, submitted: pl.DataFrame) -> pl.DataFrame:
    """Return the newest 500 evaluations of an agent, AGENT_WINDOWS, as :func:`inline_record`."""
    new = submitted.join(exported, on="evaluation_id", how="anti")
    known = exported["evaluations_in_all"].to_list()[:1]
    # An evaluation that left the window would be counted again: the agent is mature then anyway.
    in_all = pl.lit(sum(known) + new.height, dtype=pl.Int64)
    both = pl.concat([exported, submitted.select(AGENT_WINDOWS.schema.names())])
    return (
        both.unique("evaluation_id", keep="last")
        .sort("evaluated_at", "evaluation_id")
        .tail(WINDOW_SIZE)
        .with_columns(evaluations_in_all=in_all)
    )


def _check_name(field: str, name: str | None) -> None:
    if name is None:
        return
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS or "\0" in name:
        raise EvaluationError(
            f"{field} must have 1 to {MAX_NAME_CHARACTERS} characters, and no NUL"
        )
