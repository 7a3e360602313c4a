"""The model comparison in the form of the gateway."""

from datetime import datetime
from typing import Any

from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.scorecards.scorecard_queries import EmptyTimeRangeError
from evaluation_pipelines.service.rows import camel_row, json_value
from evaluation_pipelines.storage.stores import Stores


def compared(
    stores: Stores,
    organization: str | None,
    label: str | None,
    span: tuple[datetime | None, datetime | None],
    now: datetime,
) -> Comparison:
    """Compare the models of an organization, or of all; without ``span`` of the last 28 days.

    Raises:
        EmptyTimeRangeError: The range ends before it begins.
        LakeError: A file cannot be read.
    """
    since, until = span
    last = last_days(now)[1] if until is None else until
    first = last_days(last)[0] if since is None else since
    if first >= last:
        raise EmptyTimeRangeError("from must be before to")
    margin = stores.settings.comparison_margin
    question = Question(first, last, label=label, organization=organization, margin=margin)
    return compare_models(stores, question, now)


def model_comparison(found: Comparison) -> dict[str, Any]:
    """Return the rows of the models and the verdicts on pairs of them."""
    return {
        "from": json_value(found.question.since),
        "to": json_value(found.question.until),
        "models": [camel_row(row) for row in found.models.iter_rows(named=True)],
        "pairs": [camel_row(row) for row in found.pairs.iter_rows(named=True)],
    }
