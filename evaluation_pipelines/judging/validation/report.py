"""Report of a validation, next to the run before it and to those of other models."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation_pipelines.judging.domain.validation.figures import (
    Figure,
    JudgedSession,
    figures,
    mean_difference,
)
from evaluation_pipelines.judging.ledger.validation_store import ValidationRun
from evaluation_pipelines.numerics.estimates import Estimate

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """A run with its figures, and the runs to compare it with.

    Attributes:
        run: The run.
        figures: Its figures.
        last: The run of the same model, rubric name and sessions before it; ``None`` for the first.
        change: Mean change of the totals since then, in points.
        others: Newest run of each other model over the same sessions, by model.
    """

    run: ValidationRun
    figures: list[Figure]
    last: ValidationRun | None
    change: Estimate
    others: list[ValidationRun]

    def record(self) -> dict[str, Any]:
        """Return everything as a document."""
        change = self.change
        return {
            **_facts(self.run),
            "figures": [_figure(each) for each in self.figures],
            "sessions": [
                {name: getattr(each, name) for name in JudgedSession.__slots__}
                for each in self.run.sessions
            ],
            "last": None if self.last is None else self._compared(self.last),
            "change_of_totals": {"value": change.value, "low": change.low, "high": change.high},
            "other_models": [self._compared(each) for each in self.others],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per run and figure."""
        runs = [self.run, *([] if self.last is None else [self.last]), *self.others]
        return [{**_facts(run), **_figure(each)} for run in runs for each in figures(run.sessions)]

    def _compared(self, run: ValidationRun) -> dict[str, Any]:
        return {**_facts(run), "figures": [_figure(each) for each in figures(run.sessions)]}


def validation_report(run: ValidationRun, ended: Sequence[ValidationRun]) -> ValidationReport:
    """Return the report of ``run``; ``ended`` are all runs, oldest first."""
    earlier = [
        each
        for each in ended
        if each.set_hash == run.set_hash
        and each.rubric == run.rubric
        and each.stop_reason is None
        and each.started_at_us < run.started_at_us
    ]
    newest = {each.judge_model: each for each in earlier}
    last = newest.pop(run.judge_model, None)
    change = mean_difference(run.sessions, last.sessions if last else ())
    others = [newest[model] for model in sorted(newest)]
    return ValidationReport(run, figures(run.sessions), last, change, others)


def spent(run: ValidationRun) -> tuple[float, int | None, float | None]:
    """Return seconds, tokens and US dollars of a run; ``None`` if a part of them is unknown."""
    parts = [(each.input_tokens, each.output_tokens, each.cost_usd) for each in run.sessions]
    tokens = [None if None in each[:2] else (each[0] or 0) + (each[1] or 0) for each in parts]
    known = [each for each in tokens if each is not None]
    costs = [each[2] for each in parts if each[2] is not None]
    return (
        sum(each.seconds for each in run.sessions),
        sum(known) if len(known) == len(parts) else None,
        sum(costs) if len(costs) == len(parts) else None,
    )


def _facts(run: ValidationRun) -> dict[str, Any]:
    seconds, tokens, cost_usd = spent(run)
    return {
        "judge_model": run.judge_model,
        "rubric": run.rubric,
        "prompt_hash": run.prompt_hash,
        "set_hash": run.set_hash,
        "started_at": (_EPOCH + timedelta(microseconds=run.started_at_us)).isoformat(),
        "stop_reason": run.stop_reason,
        "judged_sessions": len(run.sessions),
        "unreachable_sessions": sum(each.is_unreachable for each in run.sessions),
        "seconds": round(seconds, 3),
        "tokens": tokens,
        "cost_usd": cost_usd,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    estimate = figure.estimate
    return {
        "figure": figure.name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "number": figure.number,
    }
