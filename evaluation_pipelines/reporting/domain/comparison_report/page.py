"""Content of the HTML report, prepared for its template: texts, table cells and charts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.answers import (
    demo_caveat,
    label_answers,
    overview,
    ranked_answers,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, coverage
from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    GotWorse,
    findings,
    got_worse,
    name_of,
    watch_coverage,
)
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.formatting import points
from evaluation_pipelines.reporting.domain.comparison_report.charts import forest, scatter
from evaluation_pipelines.reporting.domain.comparison_report.details import (
    worst_cards,
    worst_rows,
)
from evaluation_pipelines.reporting.domain.comparison_report.distributions import (
    distributions,
    trend,
)
from evaluation_pipelines.reporting.domain.comparison_report.method import method_lines
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    ACCOUNT_HEADINGS,
    LABEL_HEADINGS,
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    WATCH_HEADINGS,
    WORST_HEADINGS,
    account_cells,
    errors_line,
    judge_lines,
    label_cells,
    model_cells,
    pair_cells,
    span_line,
    unwatched_lines,
    watch_cells,
)

TITLE = "Model comparison"


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Addresses that a page links to: of a session in RUNS, and of the sessions of a model."""

    session: Callable[[Row], str]
    model: Callable[[Row], str]


def page_content(comparison: Comparison, links: PageLinks | None = None) -> dict[str, Any]:
    """Return the values of the template by name; texts are not escaped yet.

    Without ``links`` each of the worst sessions has a card on the page.
    """
    found = findings(comparison)
    ranked = ranked_answers(comparison)
    drawn = _drawn(comparison)
    # A text of telemetry is never an id.
    ids = {each.group: f"label-{place}" for place, (each, _) in enumerate(ranked, 1)}
    watched = comparison.regressions.filter(pl.col("state") != "insufficient")
    left_out = coverage(comparison)
    return {
        "title": TITLE,
        "span": span_line(comparison),
        "caveat": demo_caveat(comparison),
        "labels": [
            label_cells(each, f"#{ids[each.finding.group]}" if each.answers else "")
            for each in label_answers(comparison)
        ],
        "label_headings": LABEL_HEADINGS,
        "overview": overview(comparison),
        "alerts": [_alert(each, comparison, links) for each in got_worse(comparison)],
        "watch_coverage": watch_coverage(comparison),
        "ranked": [
            _group(each, links)
            | {"id": ids[each.group], "answers": said, "figures": drawn.get(each.group, [])}
            for each, said in ranked
        ],
        "others": [_group(each, links) for each in found if not (each.is_main and each.ranked)],
        "unwatched": unwatched_lines(comparison),
        "watched": [watch_cells(row) for row in watched.iter_rows(named=True)],
        "worst": worst_rows(comparison, links.session if links else None),
        "cards": [] if links else worst_cards(comparison),
        "total": sum(each.sessions for each in left_out),
        "coverage": [
            account_cells(each, links.session(each.example_key()) if links else "")
            for each in left_out
        ],
        "method": method_lines(comparison.question.min_runs, comparison.question.margin),
        "model_headings": MODEL_HEADINGS,
        "pair_headings": PAIR_HEADINGS,
        "watch_headings": WATCH_HEADINGS,
        "worst_headings": WORST_HEADINGS,
        "coverage_headings": ACCOUNT_HEADINGS,
    }


def colors(found: Finding) -> dict[str, int]:
    """Return the color number of each model, the same in all charts of a finding."""
    return {name: place for place, name in enumerate(sorted(map(name_of, found.models)))}


def _alert(alert: GotWorse, comparison: Comparison, links: PageLinks | None) -> dict[str, Any]:
    """Return an alert with names and URLs of the sessions to look at, the worst first.

    Without ``links`` they have no URL, and their names end with their keys.
    """
    runs = comparison.runs.filter(pl.col("session_key").is_in(alert.sessions))
    rows = {row["session_key"]: row for row in runs.iter_rows(named=True)}
    known = [rows[key] for key in alert.sessions if key in rows]
    return {
        "said": alert.said,
        "sessions": [
            (_session_name(row), links.session(row))
            if links
            else (f"{_session_name(row)}: {row['session_key']}", None)
            for row in known
        ],
    }


def _session_name(row: Row) -> str:
    when = f"{row['started_at']:%Y-%m-%d %H:%M}"
    return f"{points(row['score'])}, {row['agent_id'] or 'session'}, {when}"


def _is_compared(found: Finding) -> bool:
    """Return True if there are charts to show: at least two ranked models."""
    return found.is_main and len(found.ranked) > 1


def _group(found: Finding, links: PageLinks | None) -> dict[str, Any]:
    return {
        "label": found.label,
        "scored_by": found.scored_by,
        "facts": found.facts,
        "errors": errors_line(found.ranked or found.models),
        "models": [model_cells(row, links.model(row) if links else "") for row in found.models],
        "pairs": [pair_cells(pair) for pair in found.pairs],
        "corrected": judge_lines(found),
        "figures": [],
    }


@lru_cache(maxsize=8)
def _drawn(comparison: Comparison) -> Mapping[tuple[object, ...], Sequence[Mapping[str, str]]]:
    """Return the charts by group of runs, drawn once: the service shows a comparison often."""
    return {
        each.group: list(_figures(each, comparison))
        for each in findings(comparison)
        if _is_compared(each)
    }


def _figures(found: Finding, comparison: Comparison) -> Iterator[dict[str, str]]:
    numbers, question = colors(found), comparison.question
    charts = (
        (
            "Quality vs. cost",
            scatter(found.models, numbers),
            "Lines are 95% intervals. The dashed line joins models that no other beats in both.",
        ),
        (
            "Score differences, same task mix",
            forest(found.pairs),
            "Dark lines are conclusive, pale lines may be chance.",
        ),
        (
            "Score distribution",
            distributions(found, comparison.runs, numbers),
            "The vertical line is the mean.",
        ),
        (
            "Mean score over time",
            trend(found, comparison.runs, (question.since, question.until), numbers),
            "Periods with at least 3 sessions.",
        ),
    )
    for caption, svg, note in charts:
        if svg is not None:
            yield {"caption": caption, "svg": svg, "note": note}
