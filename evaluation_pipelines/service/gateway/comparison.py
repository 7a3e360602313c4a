"""The model comparison in the form of the gateway."""

from collections.abc import Mapping
from typing import Any

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.service.rows import camel_row, json_value


def model_comparison(found: Comparison) -> dict[str, Any]:
    """Return the rows of the models and the verdicts on pairs of them.

    ``avgScore`` is the mean of the runs' effective scores. The mean of people's means, on which
    rank, intervals and verdicts rest, is ``peopleAlikeAvgScore``.
    """
    return {
        "from": json_value(found.question.since),
        "to": json_value(found.question.until),
        "models": [camel_row(_model(row)) for row in found.models.iter_rows(named=True)],
        "pairs": [camel_row(row) for row in found.pairs.iter_rows(named=True)],
    }


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    score, cost = row["avg_effective_score"], row["avg_cost_usd"]
    has_worth = score is not None and row["score_per_dollar"] is not None
    of_runs = {"avg_score": score, "score_per_dollar": score / cost if has_worth else None}
    shown = dict[str, Any]()
    for name, value in row.items():
        figure = name.removesuffix("_low").removesuffix("_high")
        if name in of_runs:
            shown[name] = of_runs[name]
        shown[f"people_alike_{name}" if figure in of_runs else name] = value
    del shown["avg_effective_score"]
    return shown
