"""A gate over the lake: its runs, its file, and the ledger's count of looks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import polars as pl
import sqlalchemy as sa
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evaluation_pipelines.comparison.compare_models import runs_to_compare, with_outcomes
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.gate import (
    BASE,
    HEAD,
    MARGIN,
    Gate,
    gate,
    metric_of,
)
from evaluation_pipelines.comparison.domain.groups import Grouping, attribute
from evaluation_pipelines.comparison.domain.outcomes import Rule
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import GATE_LOOKS
from evaluation_pipelines.storage.stores import Stores

TASK = "task.id"
"""Attribute of sessions (EVAL_SESSION_ATTRIBUTES) that names their task."""


def _checked(name: str) -> str:
    try:
        return metric_of(name).name
    except UserError as error:
        raise ValueError(str(error)) from error


MetricName = Annotated[str, AfterValidator(_checked)]
Margin = Annotated[float, Field(gt=0, le=100)]


class GateFile(BaseModel):
    """Demands of a gate, from a file of the base.

    Attributes:
        margin: Points, or percent of a ratio of costs.
        metrics: Metrics that must pass, optionally each with its own margin.
        tasks: Tasks that must have runs on both sides. If empty, all tasks with such runs count.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    margin: Margin = MARGIN
    metrics: tuple[MetricName, ...] | Mapping[MetricName, Margin] = Field(
        ("effective",), min_length=1
    )
    tasks: frozenset[str] = frozenset()

    @property
    def margins(self) -> dict[str, float]:
        """The margin of each metric."""
        if isinstance(self.metrics, Mapping):
            return dict(self.metrics)
        return dict.fromkeys(self.metrics, self.margin)


def read_gate_file(path: Path) -> GateFile:
    """Read a file in YAML.

    Raises:
        UserError: It cannot be read, or is not valid.
    """
    try:
        return GateFile.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}") from error


@dataclass(frozen=True, slots=True)
class Arms:
    """Base and head: how they were typed, and their sessions."""

    names: tuple[str, str]
    base: SessionFilter
    head: SessionFilter


def run_gate(
    stores: Stores,
    arms: Arms,
    demands: GateFile,
    asked: Question,
    now: datetime,
    look: int | None = None,
) -> Gate:
    """Compare a head with its base.

    Args:
        stores: The stores.
        arms: Base and head.
        demands: Margin, metrics and tasks.
        asked: Time range and other conditions of the runs.
        now: Time of the look.
        look: Number of this look. By default the ledger counts.

    Raises:
        GroupingError: The arms overlap, or one is empty.
        LakeError: A file cannot be read.
        LedgerError: The look cannot be counted.
    """
    metrics = [(metric_of(name), margin) for name, margin in demands.margins.items()]
    named = Grouping(arms=((BASE, arms.base), (HEAD, arms.head)))
    outcomes = {metric.name: metric.rule for metric, _ in metrics if metric.rule is not None}
    runs = measured_runs(stores.lake.snapshot(), replace(asked, by=named), outcomes)
    number = _look(stores.ledger, arms, runs, now) if look is None else look
    return gate(runs, metrics, number, demands.tasks)


def measured_runs(
    lake: Lake, asked: Question, outcomes: Mapping[str, Rule] | None = None
) -> pl.DataFrame:
    """Return RUNS by their groups with their ``task`` and a column for each of METRICS.

    Args:
        lake: The lake.
        asked: The question.
        outcomes: Rules of outcomes by the names of their columns, whose values are 0 to 100.

    Raises:
        GroupingError: Sessions cannot be grouped in this way.
        LakeError: A file cannot be read.
    """
    runs, evaluations = runs_to_compare(lake, asked)
    days = evaluations["session_date"].unique().sort()
    sessions = lake.read(AGENT_SESSIONS, days, [*SESSION_KEY, "session_attributes"])
    names = sessions.select(*SESSION_KEY, task=attribute(TASK))
    scores = evaluations.select(*SESSION_KEY, "composite", "judge_total", "judge_total_model")
    calls = pl.col("tools_ok") + pl.col("tools_failed")
    runs = with_outcomes(lake, runs, evaluations, outcomes or {})
    return (
        runs.join(names, on=SESSION_KEY, how="left", maintain_order="left")
        .join(scores, on=SESSION_KEY, how="left", maintain_order="left")
        .with_columns(
            effective="score",
            composite=pl.col("composite") * 10,
            judge="judge_total",
            cost="cost_usd",
            failed_calls=pl.when(calls > 0).then(100 * pl.col("tools_failed") / calls),
        )
    )


def _look(ledger: Ledger, arms: Arms, runs: pl.DataFrame, now: datetime) -> int:
    """Return the number of the look at these runs: new runs of the same arms are a new one."""
    name = _digest(arms.names)
    seen = _digest(runs.select(pl.concat_str(SESSION_KEY, separator="\0").sort()).to_series())
    column = GATE_LOOKS.c
    with writing(ledger.engine) as connection:
        last = connection.execute(
            sa.select(column.look, column.runs)
            .where(column.gate == name)
            .order_by(column.look.desc())
            .limit(1)
        ).first()
        if last is not None and last.runs == seen:
            return int(last.look)
        look = 1 if last is None else int(last.look) + 1
        row = {"gate": name, "look": look, "runs": seen, "looked_at": now}
        connection.execute(sa.insert(GATE_LOOKS).values(row))
        return look


def _digest(texts: Iterable[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()
