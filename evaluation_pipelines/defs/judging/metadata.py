"""What the interface shows of judge runs and of the scores of a date."""

from collections import Counter
from collections.abc import Mapping

import dagster as dg
import polars as pl

from evaluation_pipelines.defs.metadata import distribution
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.reporting.domain.markdown import markdown_table

_LIMITS = (0.0, 100.0)
_MARKS = {"usual from": 55.0, "to": 75.0}
_WORDS = 60


def report_metadata(report: JudgeReport) -> dict[str, dg.MetadataValue]:
    """What one run did."""
    if report.skipped is not None:
        return {"skipped": dg.MetadataValue.text(report.skipped)}
    metadata: dict[str, dg.MetadataValue] = {
        name: dg.MetadataValue.float(round(value, 6))
        if isinstance(value, float)
        else dg.MetadataValue.int(value)
        for name, value in report.facts().items()
    }
    if report.mean is not None:
        metadata["mean_total"] = dg.MetadataValue.float(report.mean)
        metadata["totals"] = distribution(
            report.totals, "total", _LIMITS, _MARKS, f"{len(report.totals)} sessions were scored"
        )
    for name, counted in (
        ("failed_by_reason", report.failed),
        ("deferred_by_reason", report.deferred),
        ("could_not_go_on", report.lost),
        ("failure_tags", report.tags),
        ("redactions", report.redactions),
        ("where_sessions_stood", report.states),
    ):
        if counted:
            metadata[name] = _counts(counted)
    if report.stopped is not None:
        metadata["stopped"] = dg.MetadataValue.text(report.stopped)
    return metadata


def scores_metadata(scores: pl.DataFrame) -> dict[str, dg.MetadataValue]:
    """The scores of a date (rows of ``judge_scores``): distribution, money, tokens, tags."""
    done = scores.filter(pl.col("status") == "completed")
    failed = scores.filter(pl.col("status") == "failed")
    totals = done["total_score"].drop_nulls().to_list()
    cost = scores["judge_cost_usd"]
    metadata: dict[str, dg.MetadataValue] = {
        "cost_usd": dg.MetadataValue.float(round(float(cost.sum()), 6)),
        "scorings_of_unknown_price": dg.MetadataValue.int(_unpriced(scores)),
        "tokens": dg.MetadataValue.int(_tokens(scores)),
        "totals": distribution(
            totals, "total", _LIMITS, _MARKS, f"{len(totals)} scorings have a total"
        ),
    }
    if totals:
        metadata["mean_total"] = dg.MetadataValue.float(sum(totals) / len(totals))
    tags = done["failure_tags"].explode(empty_as_null=True).drop_nulls().to_list()
    for name, values in (("failure_tags", tags), ("failed_by_reason", _reasons(failed))):
        if values:
            metadata[name] = _counts(Counter(values))
    return metadata


def _unpriced(scores: pl.DataFrame) -> int:
    asked = pl.col("latency_ms").is_not_null()
    return scores.filter(asked & pl.col("judge_cost_usd").is_null()).height


def _tokens(scores: pl.DataFrame) -> int:
    return sum(
        int(scores[name].sum()) for name in ("input_tokens", "cached_tokens", "output_tokens")
    )


def _reasons(failed: pl.DataFrame) -> list[str]:
    return failed["error_message"].fill_null("no reason given").to_list()


def _counts(counted: Mapping[str, int]) -> dg.MetadataValue:
    rows = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return dg.MetadataValue.md(markdown_table(("what", "times"), rows, _WORDS))
