"""Metadata of judge runs and of the judge scores of a date."""

from collections import Counter
from collections.abc import Mapping

import dagster as dg
import polars as pl

from evaluation_pipelines.defs.metadata import histogram_metadata
from evaluation_pipelines.judging.domain.prompt.rubric import TOTAL_POINTS, USUAL_MEAN
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import SCORE_FLAGS

_LIMITS = (0.0, float(TOTAL_POINTS))
_MARKS = {"usual from": USUAL_MEAN[0], "to": USUAL_MEAN[1]}
_CELL_LETTERS = 60


def report_metadata(report: JudgeReport) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one judge run."""
    if report.skip_reason is not None:
        return {"skipped": dg.MetadataValue.text(report.skip_reason)}
    metadata: dict[str, dg.MetadataValue] = {
        name: dg.MetadataValue.float(round(value, 6))
        if isinstance(value, float)
        else dg.MetadataValue.int(value)
        for name, value in report.metrics().items()
    }
    if report.mean is not None:
        metadata["mean_total"] = dg.MetadataValue.float(report.mean)
        metadata["totals"] = histogram_metadata(
            report.totals, "total", _LIMITS, _MARKS, f"{len(report.totals)} sessions were scored"
        )
    for name, counted in (
        ("failed_by_reason", report.failed),
        ("deferred_by_reason", report.deferred),
        ("could_not_go_on", report.discarded),
        ("failure_tags", report.tags),
        ("redactions", report.redactions),
        ("where_sessions_stood", report.states),
    ):
        if counted:
            metadata[name] = _counts(counted)
    if report.stop_reason is not None:
        metadata["stopped"] = dg.MetadataValue.text(report.stop_reason)
    return metadata


def scores_metadata(scores: pl.DataFrame) -> dict[str, dg.MetadataValue]:
    """Return totals, cost, tokens and tags of the rows of ``judge_scores`` of a date."""
    done = scores.filter(pl.col("status") == "completed")
    failed = scores.filter(pl.col("status") == "failed")
    totals = done["total_score"].drop_nulls().to_list()
    cost = scores["judge_cost_usd"]
    metadata: dict[str, dg.MetadataValue] = {
        "cost_usd": dg.MetadataValue.float(round(float(cost.sum()), 6)),
        "scorings_of_unknown_price": dg.MetadataValue.int(_unpriced(scores)),
        "tokens": dg.MetadataValue.int(_tokens(scores)),
        "totals": histogram_metadata(
            totals, "total", _LIMITS, _MARKS, f"{len(totals)} scorings have a total"
        ),
    }
    if totals:
        metadata["mean_total"] = dg.MetadataValue.float(sum(totals) / len(totals))
    models = done["judge_model"].unique().sort().to_list()
    metadata["judge_models"] = dg.MetadataValue.text(", ".join(models) or "none")
    flags = [name for name in SCORE_FLAGS for _ in range(int(done[name].sum()))]
    tags = done["failure_tags"].explode(empty_as_null=True).drop_nulls().to_list()
    for name, values in (
        ("flags", flags),
        ("failure_tags", tags),
        ("failed_by_reason", _reasons(failed)),
    ):
        if values:
            metadata[name] = _counts(Counter(values))
    return metadata


def _unpriced(scores: pl.DataFrame) -> int:
    # Replies in batches have no latency.
    facts = ("latency_ms", "output_tokens", "total_score", "failed_reply")
    answered = pl.any_horizontal(pl.col(name).is_not_null() for name in facts)
    return scores.filter(answered & pl.col("judge_cost_usd").is_null()).height


def _tokens(scores: pl.DataFrame) -> int:
    return sum(
        int(scores[name].sum()) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )


def _reasons(failed: pl.DataFrame) -> list[str]:
    return failed["error_message"].fill_null("no reason given").to_list()


def _counts(counted: Mapping[str, int]) -> dg.MetadataValue:
    rows = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return dg.MetadataValue.md(markdown_table(("what", "times"), rows, _CELL_LETTERS))
