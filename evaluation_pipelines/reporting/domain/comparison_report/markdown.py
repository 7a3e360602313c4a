"""The report as Markdown, for terminals, mail and asset metadata."""

import base64
from collections.abc import Iterable, Sequence

import polars as pl

from evaluation_pipelines.comparison.domain.answers import (
    Answer,
    demo_caveat,
    label_answers,
    overview,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, coverage, worst_sessions
from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    findings,
    got_worse,
    watch_coverage,
)
from evaluation_pipelines.reporting.domain.comparison_report.charts import scatter
from evaluation_pipelines.reporting.domain.comparison_report.method import method_lines
from evaluation_pipelines.reporting.domain.comparison_report.page import TITLE, colors
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    ACCOUNT_HEADINGS,
    LABEL_HEADINGS,
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    WATCH_HEADINGS,
    WORST_HEADINGS,
    Cell,
    account_cells,
    errors_line,
    judge_lines,
    label_cells,
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
            parts += [f"### {escaped(each.label)}: pairs of models", pairs_table(each)]
        parts += [_bullets(judge_lines(each))]
    watched = comparison.regressions.filter(pl.col("state") != "insufficient").rows(named=True)
    unwatched = unwatched_lines(comparison)
    if watched or unwatched:
        table = _table(WATCH_HEADINGS, map(watch_cells, watched)) if watched else ""
        parts += ["## Monitoring", table, _bullets(unwatched)]
    parts += ["## Lowest scores", _worst(comparison)]
    lines = map(account_cells, coverage(comparison))
    parts += ["## Sessions not ranked", _table(ACCOUNT_HEADINGS, lines)]
    parts += [
        "## Method",
        _bullets(method_lines(comparison.question.min_runs, comparison.question.margin)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def answers(comparison: Comparison) -> str:
    """Return the first screen: a row for each label, what got worse, and the answers in full."""
    labels = label_answers(comparison)
    if not labels:
        return "No scored sessions in this time."
    every, *how = overview(comparison)
    parts = [escaped(each, LONGEST_SENTENCE) for each in (demo_caveat(comparison),) if each]
    parts += [_table(LABEL_HEADINGS, map(label_cells, labels)), escaped(every, LONGEST_SENTENCE)]
    alerts = got_worse(comparison)
    parts += [f"**Got worse**: {escaped(each.sentence, LONGEST_ALERT)}" for each in alerts]
    parts += [escaped(watch_coverage(comparison))] if alerts else []
    for each in labels:
        if each.answers:
            parts.append(f"**{escaped(each.finding.label)}** ({escaped(each.finding.scored_by)})")
            parts.append("\n".join(map(_answer, each.answers)))
    return "\n\n".join([*parts, *(escaped(each, LONGEST_SENTENCE) for each in how)])


def _answer(answer: Answer) -> str:
    first, rest = (escaped(each, LONGEST_SENTENCE) for each in (answer.first, answer.rest))
    return f"* {answer.name}: **{first}**{rest}"


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
    return _table((*WORST_HEADINGS, "Details"), lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    names = [name.removesuffix(" #") for name in headings]
    return markdown_table(names, ([flat(cell) for cell in row] for row in rows))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"* {escaped(each, LONGEST_SENTENCE)}" for each in lines)
