"""A comparison as a short list of models and pairs, for other programs."""

from collections import Counter
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, NOT_DECIDED, TOO_FEW
from evaluation_pipelines.comparison.domain.runs import MODEL

_WORDS = {
    A_BETTER: "a_better",
    B_BETTER: "b_better",
    NOT_DECIDED: "not_decided",
    TOO_FEW: "too_few",
}


def verdict_list(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    """Return ``models``, ``pairs`` and ``money`` of a comparison.

    Each model has ``label, model, runs, mean, low, high``; each pair ``label, model_a, model_b,
    difference, low, high, corrected_low, corrected_high, verdict, indication``. Scores and
    differences are in points. ``low`` and ``high`` are a 95% interval of this model or pair alone;
    the corrected ends are those of all pairs of the report together, as the verdict is. ``verdict``
    is ``a_better``, ``b_better``, ``not_decided`` or ``too_few``; ``indication`` is what it looks
    like where the data cannot carry a verdict, else null. A model of several providers has its
    provider in brackets, one that ran in another way than the usual its variant.

    ``money`` has points per dollar of each model: ``label, model, per_dollar, low, high``, whether
    it is shown to be less than the margin below every other one (``is_not_worse``; null where that
    is not tested), and whether it is the cheapest of these (``is_best_value``).
    """
    several = _of_several_providers(comparison.models)
    return {
        "models": [
            {
                "label": row["classification_label"],
                "model": _name(row, "", several),
                "runs": row["runs"],
                "mean": row["avg_score"],
                "low": row["avg_score_low"],
                "high": row["avg_score_high"],
            }
            for row in comparison.models.iter_rows(named=True)
        ],
        "pairs": [
            {
                "label": row["classification_label"],
                "model_a": _name(row, "_a", several),
                "model_b": _name(row, "_b", several),
                "difference": row["adjusted_difference"],
                "low": row["adjusted_low"],
                "high": row["adjusted_high"],
                "corrected_low": row["adjusted_low_holm"],
                "corrected_high": row["adjusted_high_holm"],
                "verdict": _WORDS[row["verdict"]],
                "indication": None if row["indication"] is None else _WORDS[row["indication"]],
            }
            for row in comparison.pairs.iter_rows(named=True)
        ],
        "money": [
            {
                "label": row["classification_label"],
                "model": _name(row, "", several),
                "per_dollar": row["score_per_dollar"],
                "low": row["score_per_dollar_low"],
                "high": row["score_per_dollar_high"],
                "is_not_worse": row["is_not_worse"],
                "is_best_value": row["is_best_value"],
            }
            for row in comparison.models.iter_rows(named=True)
        ],
    }


def _of_several_providers(models: pl.DataFrame) -> set[str]:
    seen = Counter(model for model, _ in set(models.select("model", "provider").iter_rows()))
    return {model for model, number in seen.items() if number > 1}


def _name(row: Row, side: str, several: set[str]) -> str:
    model, provider, variant = (row[f"{name}{side}"] for name in MODEL)
    details = [provider or "unknown provider"] if model in several else []
    details += [] if variant is None else [variant]
    return f"{model} ({', '.join(details)})" if details else str(model)
