"""The report as one HTML page that needs nothing else: no network, no other file."""

import polars as pl

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.coverage import coverage
from evaluation_pipelines.comparison.domain.findings import Finding, findings, name_of
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.reporting.domain.comparison_report.charts import forest, scatter
from evaluation_pipelines.reporting.domain.comparison_report.details import (
    worst_details,
    worst_table,
)
from evaluation_pipelines.reporting.domain.comparison_report.distributions import (
    distributions,
    trend,
)
from evaluation_pipelines.reporting.domain.comparison_report.markup import (
    LONGEST_SENTENCE,
    escaped,
    figure,
    items,
    table,
)
from evaluation_pipelines.reporting.domain.comparison_report.method import method_lines
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    ACCOUNT_HEADINGS,
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    WATCH_HEADINGS,
    account_cells,
    errors_line,
    judge_lines,
    model_cells,
    pair_cells,
    span_line,
    watch_cells,
)
from evaluation_pipelines.reporting.domain.comparison_report.style import (
    CSS,
    SCRIPT,
    content_security_policy,
)

TITLE = "Which model is worth its money?"


def html_page(comparison: Comparison) -> str:
    """The whole page. Every text of telemetry, models and people in it is escaped."""
    found = findings(comparison)
    body = [
        f'<p class="muted small">Model comparison</p><h1>{escaped(TITLE)}</h1>',
        f'<p class="muted">{escaped(span_line(comparison))}</p>',
        *_alerts(comparison),
        *_answers(found),
        *(_details(each, comparison) for each in found if _is_compared(each)),
        *_others([each for each in found if not _is_compared(each)]),
        *_watch(comparison),
        worst_table(comparison),
        _left_out(comparison),
        f"<h2>How these figures are made</h2>{items(method_lines(comparison.question.min_runs))}",
        worst_details(comparison),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy()}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escaped(TITLE)}</title>'
        f"<style>{CSS}</style></head><body><main>{''.join(body)}</main>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def colours(found: Finding) -> dict[str, int]:
    """Number of the colour of each model, the same in all charts of a finding."""
    return {name: place for place, name in enumerate(sorted(map(name_of, found.models)))}


def _is_compared(found: Finding) -> bool:
    """Whether there are pictures to show: two models or more in the ranking."""
    return found.is_main and len(found.ranked) > 1


def _answers(found: list[Finding]) -> list[str]:
    main = [each for each in found if each.is_main]
    if not main:
        return ['<div class="card answer"><h2>There is no scored session in this time.</h2></div>']
    with_ranking = [each for each in main if each.ranked]
    without = [each.label for each in main if not each.ranked]
    cards = [
        f'<div class="card answer{" decided" if each.is_decided else ""}">'
        f"<h2>{escaped(each.headline, LONGEST_SENTENCE)}</h2>{items(each.sentences)}"
        f'<p class="small muted">Scored by: {escaped(each.scored_by)}. '
        f"{escaped(errors_line(each.ranked))}</p></div>"
        for each in with_ranking
    ]
    if without:
        said = f"Too few runs to compare models: {', '.join(without)}."
        cards.append(f'<div class="card answer"><p>{escaped(said, LONGEST_SENTENCE)}</p></div>')
    return cards


def _alerts(comparison: Comparison) -> list[str]:
    alerts = comparison.regressions.filter(pl.col("state") == "alert").rows(named=True)
    if not alerts:
        return []
    lines = [
        f"{name_of(row)} ({row['classification_label']}): {row['recent_score']:.1f} points in "
        f"the last 7 days, {row['before_score']:.1f} before"
        for row in alerts
    ]
    return [f'<div class="card alert"><h2>Got worse</h2>{items(lines)}</div>']


def _details(found: Finding, comparison: Comparison) -> str:
    numbers = colours(found)
    asked = comparison.question
    pictures = [
        (
            "What quality costs",
            scatter(found.models, numbers),
            "Lines are 95 % intervals; the dashed line joins the frontier.",
        ),
        (
            "How far apart the models are, on the same mix of tasks",
            forest(found.pairs),
            "Strong lines are decided, pale ones may be chance.",
        ),
        (
            "How the scores are spread",
            distributions(found, comparison.runs, numbers),
            "The upright line is the mean.",
        ),
        (
            "How the mean went",
            trend(found, comparison.runs, (asked.since, asked.until), numbers),
            "Only stretches with 3 runs or more are drawn.",
        ),
    ]
    figures = "".join(figure(name, svg, note) for name, svg, note in pictures if svg is not None)
    return (
        f"<h2>{escaped(found.label)}: the figures</h2>{_models(found.models)}"
        f'<div class="grid">{figures}</div>'
        f"{_pairs(found)}{_judged(found)}"
    )


def _models(rows: tuple[Row, ...]) -> str:
    return table(MODEL_HEADINGS, map(model_cells, rows))


def _pairs(found: Finding) -> str:
    if not found.pairs:
        return ""
    head = f"<h3>{escaped(found.label)}: every two models</h3>"
    return head + table(PAIR_HEADINGS, map(pair_cells, found.pairs))


def _judged(found: Finding) -> str:
    lines = judge_lines(found)
    return f"<h3>Were people to score them</h3>{items(lines)}" if lines else ""


def _others(found: list[Finding]) -> list[str]:
    """Groups that answer nothing: folded, but there."""
    parts = [
        f"<h3>{escaped(each.label)}: {escaped(each.scored_by)}</h3>{_models(each.models)}"
        f"{_pairs(each)}{_judged(each)}"
        for each in found
    ]
    if not parts:
        return []
    summary = f"{len(parts)} other groups of runs: scored differently, or too few to compare"
    return [f"<details><summary>{escaped(summary)}</summary>{''.join(parts)}</details>"]


def _watch(comparison: Comparison) -> list[str]:
    rows = comparison.regressions.filter(pl.col("state") != "insufficient").rows(named=True)
    if not rows:
        return []
    head = "<h2>Did a model get worse?</h2>"
    return [head + table(WATCH_HEADINGS, map(watch_cells, rows))]


def _left_out(comparison: Comparison) -> str:
    lines = coverage(comparison)
    total = sum(each.sessions for each in lines)
    return (
        "<h2>What was left out, and why</h2>"
        f'<p class="muted">All {total:,} session windows of this time, each in one line.</p>'
        f"{table(ACCOUNT_HEADINGS, map(account_cells, lines))}"
    )
