"""The report as Markdown, for terminals, mail and asset metadata."""

import base64
from collections.abc import Iterable, Sequence

import polars as pl

from evaluation_pipelines.comparison.domain.answers import (
    Answer,
    answers_of,
    demo_caveat,
    overview,
    without_ranking,
)
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.coverage import coverage, worst_sessions
from evaluation_pipelines.comparison.domain.findings import Finding, findings
from evaluation_pipelines.comparison.domain.got_worse import got_worse, watch_coverage
from evaluation_pipelines.reporting.domain.comparison_report.charts import scatter
from evaluation_pipelines.reporting.domain.comparison_report.method import method_lines
from evaluation_pipelines.reporting.domain.comparison_report.page import TITLE, colors
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    ACCOUNT_HEADINGS,
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    WATCH_HEADINGS,
    WORST_HEADINGS,
    Cell,
    account_cells,
    errors_line,
    judge_lines,
    look_command,
    model_cells,
    pair_cells,
    span_line,
    unwatched_lines,
    watch_cells,
    worst_cells,
)
from evaluation_pipelines.reporting.domain.markdown import escaped, markdown_table

LONGEST_SENTENCE = 1000
"""Maximum number of characters of a sentence of the report."""


LONGEST_ALERT = 2000
"""The same of an alert, which names sessions."""


def markdown_report(comparison: Comparison) -> str:
    """Return the report without charts."""
    found = findings(comparison)
    parts = [
        f"# {escaped(TITLE)}",
        escaped(span_line(comparison), LONGEST_SENTENCE),
        answers(comparison),
    ]
    for each in found:
        heading = f"## {escaped(each.label)}: {escaped(each.scored_by)}"
        parts += [
            heading,
            _bullets(each.facts),
            models_table(each),
            escaped(errors_line(each.ranked or each.models), LONGEST_SENTENCE),
        ]
        if each.pairs:
            parts += [f"### Every two models of {escaped(each.label)}", pairs_table(each)]
        parts += [_bullets(judge_lines(each))]
    watched = comparison.regressions.filter(pl.col("state") != "insufficient").rows(named=True)
    unwatched = unwatched_lines(comparison)
    if watched or unwatched:
        table = _table(WATCH_HEADINGS, map(watch_cells, watched)) if watched else ""
        parts += ["## Did a model get worse?", table, _bullets(unwatched)]
    parts += ["## The worst sessions", _worst(comparison)]
    lines = map(account_cells, coverage(comparison))
    parts += ["## What was left out, and why", _table(ACCOUNT_HEADINGS, lines)]
    parts += [
        "## How these figures are made",
        _bullets(method_lines(comparison.question.min_runs, comparison.question.margin)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def answers(comparison: Comparison) -> str:
    """Return the first screen: what is in the ranking, and the answers for each label."""
    found = findings(comparison)
    if not found:
        return "There is no scored session in this time."
    said = filter(None, (demo_caveat(comparison), *overview(comparison)))
    parts = [escaped(each, LONGEST_SENTENCE) for each in said]
    alerts = got_worse(comparison)
    parts += [f"**Got worse**: {escaped(each.sentence, LONGEST_ALERT)}" for each in alerts]
    parts += [escaped(watch_coverage(comparison))] if alerts else []
    for each in found:
        if each.is_main and each.ranked:
            parts.append(f"**{escaped(each.label)}** (scored by: {escaped(each.scored_by)})")
            parts.append("\n".join(map(_answer, answers_of(each, comparison))))
    if without := without_ranking(found, comparison.question.min_runs):
        parts.append(escaped(without, LONGEST_SENTENCE))
    return "\n\n".join(parts)


def _answer(answer: Answer) -> str:
    first, rest = (escaped(each, LONGEST_SENTENCE) for each in (answer.first, answer.rest))
    return f"* {answer.question} {f'**{first}**{rest}' if rest else first}"


def models_table(found: Finding) -> str:
    """Return the table of the models of a finding."""
    return _table(MODEL_HEADINGS, map(model_cells, found.models))


def pairs_table(found: Finding) -> str:
    """Return the table of the pairs of a finding."""
    return _table(PAIR_HEADINGS, map(pair_cells, found.pairs))


def picture(found: Finding) -> str | None:
    """Return cost against quality as an inline image."""
    svg = scatter(found.models, colors(found))
    if svg is None:
        return None
    encoded = base64.b64encode(svg.encode()).decode()
    return f"![Mean cost of a session against mean score](data:image/svg+xml;base64,{encoded})"


def flat(cell: Cell) -> str:
    """Return a cell as one text."""
    tag = f" [{cell.tag_word}]" if cell.tag else ""
    below = f" ({cell.below})" if cell.below else ""
    return f"{cell.shown}{tag}{below}"


def _worst(comparison: Comparison) -> str:
    rows = worst_sessions(comparison).iter_rows(named=True)
    lines = ([*worst_cells(row), Cell(look_command(row))] for row in rows)
    return _table((*WORST_HEADINGS, "To look at it"), lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    names = [name.removesuffix(" #") for name in headings]
    return markdown_table(names, ([flat(cell) for cell in row] for row in rows))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"* {escaped(each, LONGEST_SENTENCE)}" for each in lines)
