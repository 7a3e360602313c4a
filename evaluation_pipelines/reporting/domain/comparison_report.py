"""The report about a comparison: one structure, which HTML page, Markdown and terminal show."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.answers import (
    Answer,
    demo_caveat,
    facts,
    label_answers,
    overview,
)
from evaluation_pipelines.comparison.domain.compare import (
    Comparison,
    Question,
    coverage,
    worst_sessions,
)
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    GotWorse,
    findings,
    got_worse,
    watch_coverage,
)
from evaluation_pipelines.comparison.domain.models import Row, name_of
from evaluation_pipelines.comparison.domain.regressions import ALERT_POINTS, INSUFFICIENT
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, PEOPLE, Nouns
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import LONGEST_SENTENCE, bullets, escaped, points
from evaluation_pipelines.numerics.skewed import SMALLEST_SURE
from evaluation_pipelines.reporting.domain.charts import distributions, forest, scatter, trend
from evaluation_pipelines.reporting.domain.comparison_tables import (
    Cell,
    Table,
    coverage_table,
    label_table,
    look_command,
    model_table,
    pair_table,
    watch_table,
    worst_cards,
    worst_table,
)

LONGEST_ALERT = 2000
"""Maximum number of characters of an alert, which names sessions."""


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Addresses that a page links to: of a session in RUNS, and of the sessions of a model."""

    session: Callable[[Mapping[str, Any]], str]
    model: Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Section:
    """The report's view of one group of comparable runs.

    Attributes:
        finding: The group.
        answers: Its answers; empty unless it is the main group of its label and has a ranking.
        facts: What is decided, and why the rest is not, in sentences.
        models: Table of its models.
        errors: Which kinds of standard errors its intervals use.
        pairs: Table of its pairs of models.
        corrected: Mean scores corrected by audits, in sentences.
    """

    finding: Finding
    answers: tuple[Answer, ...]
    facts: tuple[str, ...]
    models: Table
    errors: str
    pairs: Table
    corrected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """A model that got worse, with names and addresses of its sessions; the worst come first."""

    alert: GotWorse
    sessions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The report.

    Attributes:
        span: Which sessions were compared, and when.
        caveat: That a script took the place of the judge.
        labels: A row for each label.
        overview: How many sessions are ranked, then how to read the report; empty without any.
        alerts: Models that got worse.
        watch_coverage: How many models are monitored.
        sections: Groups of runs, those with a ranking first.
        watched: The monitored models.
        unwatched: Those that are not, and what it would take.
        worst: The sessions with the lowest scores.
        total: Number of all sessions.
        coverage: The place of every session.
        method: Sentences.
    """

    span: str
    caveat: str | None
    labels: Table
    overview: tuple[str, ...]
    alerts: tuple[Alert, ...]
    watch_coverage: str
    sections: tuple[Section, ...]
    watched: Table
    unwatched: tuple[str, ...]
    worst: Table
    total: int
    coverage: Table
    method: Sequence[str]


def report(comparison: Comparison, links: PageLinks | None = None) -> Report:
    """Return the report; its texts are not escaped yet.

    Without ``links`` each of the worst sessions links to a card on the page.
    """
    nouns, labels = comparison.question.nouns, label_answers(comparison)
    answers = {label.finding.group: label.answers for label in labels}
    lines, session = coverage(comparison), links.session if links else None
    watched = comparison.regressions.filter(pl.col("state") != INSUFFICIENT)
    return Report(
        span_line(comparison),
        demo_caveat(comparison),
        label_table(labels, nouns, lambda at: f"#label-{at + 1}"),
        overview(comparison),
        tuple(_alert(alert, comparison, session) for alert in got_worse(comparison)),
        watch_coverage(comparison),
        tuple(
            _section(finding, answers.get(finding.group, ()), links)
            for finding in findings(comparison)
        ),
        watch_table(watched.rows(named=True)),
        tuple(_unwatched(comparison)),
        worst_table(comparison, session),
        sum(line["sessions"] for line in lines),
        coverage_table(lines, nouns, session),
        method_lines(comparison.question),
    )


def page_content(comparison: Comparison, links: PageLinks | None = None) -> dict[str, Any]:
    """Return the values of the template by name; texts are not escaped yet."""
    return {
        "title": _title(comparison),
        "report": report(comparison, links),
        "figures": _figures(comparison),
        "cards": [] if links else worst_cards(comparison),
    }


def _title(comparison: Comparison) -> str:
    return f"{comparison.question.nouns.model.capitalize()} comparison"


def _section(found: Finding, answers: tuple[Answer, ...], links: PageLinks | None) -> Section:
    nouns = found.nouns
    return Section(
        found,
        answers,
        tuple(facts(found)),
        model_table(
            f"{found.label}: {nouns.models}", found.models, nouns, links.model if links else None
        ),
        errors_line(found.ranked or found.models, nouns),
        pair_table(f"{found.label}: pairs of {nouns.models}", found.pairs, nouns),
        tuple(_corrected(found.ranked)),
    )


def _alert(
    alert: GotWorse, comparison: Comparison, link: Callable[[Mapping[str, Any]], str] | None
) -> Alert:
    """Return an alert with its sessions, the lowest automatic score first.

    Without ``link`` their names end with their keys.
    """
    runs = comparison.runs.filter(pl.col("session_key").is_in(alert.sessions))
    shown = []
    for row in runs.sort("score", "session_key").iter_rows(named=True):
        when = f"{row['started_at']:%Y-%m-%d %H:%M}"
        name = f"automatic score {points(row['score'])}, {row['agent_id'] or 'session'}, {when}"
        shown.append((name, link(row)) if link else (f"{name}: {row['session_key']}", ""))
    return Alert(alert, tuple(shown))


def _unwatched(comparison: Comparison) -> Iterator[str]:
    """Yield which ranked models are not watched, and what it would take; others are counted."""
    every = comparison.regressions.filter(pl.col("state") == INSUFFICIENT)
    ranked = comparison.models.filter(pl.col("state") == "ranked")
    named = every.join(ranked, on=[*GROUP, *MODEL], how="semi", nulls_equal=True)
    for row in named.iter_rows(named=True):
        model = f"{name_of(row)} ({row['classification_label']})"
        yield f"{model} is not monitored yet: {row['missing']}."
    if others := every.height - named.height:
        yield f"Too few sessions to monitor: {others} more model-label pairs."


def _corrected(models: Sequence[Row]) -> Iterator[str]:
    """Yield the mean score of each model corrected by audits, or why there is none.

    Each session counts once here, where each person does in the table of models.
    """
    for row in models:
        if row["naive_score"] is None:
            continue
        naive = f"{name_of(row)}: automatic mean {points(row['naive_score'])}"
        if row["corrected_score"] is None:
            yield f"{naive}, not corrected yet ({row['correction_reason']})."
            continue
        low, high = points(row["corrected_score_low"]), points(row["corrected_score_high"])
        ends = [points(row[f"corrected_score_{end}"]) for end in ("lowest", "highest")]
        asked = f" Unanswered reviews: {row['unanswered']}"
        unanswered = f"{asked}. Whatever their answers: {' to '.join(ends)}."
        yield (
            f"{naive}. Corrected by {row['audited']} human reviews: "
            f"{points(row['corrected_score'])} ({low} to {high})."
            f"{unanswered if row['unanswered'] else ''}"
        )


def errors_line(rows: Sequence[Row], nouns: Nouns) -> str:
    """Return which kinds of standard errors the intervals of some rows use."""
    kinds = {row["clustered_by"] for row in rows if row["clustered_by"] is not None}
    if kinds == {PEOPLE}:
        return (
            f"Each person counts once here. Lists and trends average {nouns.sessions}, so their "
            "means differ."
        )
    return (
        f"People are unknown for more than a fifth of {nouns.a_model}'s {nouns.sessions}, so each "
        f"{nouns.session} and day counts once. If {nouns.sessions} of one person are similar, the "
        "intervals are too narrow. No verdict rests on them."
    )


def span_line(comparison: Comparison) -> str:
    """Return the time range and the time of the comparison."""
    asked = comparison.question
    text = f"Sessions started {_range(asked.since, asked.until)} (UTC)"
    for what, value in (
        ("label", asked.label),
        ("profile", asked.profile),
        ("organization", asked.organization),
        *asked.sessions.parts(),
    ):
        text += f", {what} {value}" if value is not None else ""
    if not (asked.by.compares_models or asked.by.arms):
        text += f", compared by {asked.by.by}"
    if asked.within is not None:
        text += f", compared within each {asked.within}"
    if comparison.as_of is not None:
        text += f", scores as of {_time(comparison.as_of)}"
    return f"{text}. Updated {_time(comparison.computed_at)}."


def _range(since: datetime, until: datetime) -> str:
    """Return a time range; one of whole days with its last day, as lists name days."""
    if _is_midnight(since) and _is_midnight(until):
        last = until - timedelta(days=1)
        return f"on {since:%Y-%m-%d}" if last <= since else f"{_time(since)} to {_time(last)}"
    return f"{_time(since)} until {_time(until)}"


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d}" if _is_midnight(time) else f"{time:%Y-%m-%d %H:%M}"


def _is_midnight(time: datetime) -> bool:
    return (time.hour, time.minute) == (0, 0)


@lru_cache(maxsize=8)
def _figures(
    comparison: Comparison,
) -> Mapping[tuple[object, ...], Sequence[tuple[str, str, str]]]:
    """Return caption, SVG and note of the charts by group of runs with at least two ranked models.

    They are drawn once: the service shows a comparison often.
    """
    return {
        finding.group: [chart for chart in _charts(finding, comparison) if chart[1] is not None]
        for finding in findings(comparison)
        if finding.is_main and len(finding.ranked) > 1
    }


def _charts(found: Finding, comparison: Comparison) -> Iterator[tuple[str, Any, str]]:
    question = comparison.question
    joins = f"The dashed line joins {question.nouns.models} that no other beats in both."
    yield ("Quality vs. cost", scatter(found), f"Lines are 95% intervals. {joins}")
    yield (
        "Score differences, same task mix",
        forest(found.pairs),
        "Dark lines are conclusive, pale lines may be chance.",
    )
    yield (
        "Score distribution",
        distributions(found, comparison.runs),
        "The vertical line is the mean.",
    )
    yield (
        "Mean score over time",
        trend(found, comparison.runs, (question.since, question.until)),
        "Periods with at least 3 sessions.",
    )


def markdown_report(comparison: Comparison) -> str:
    """Return the report as Markdown, without charts: for mail and asset metadata."""
    shown = report(comparison)
    parts = [f"# {escaped(_title(comparison))}", _sentence(shown.span), markdown_answers(shown)]
    for section in shown.sections:
        parts += [
            f"## {escaped(section.finding.label)}: {escaped(section.finding.scored_by)}",
            bullets(section.facts),
            section.models.markdown(),
            _sentence(section.errors),
        ]
        if section.pairs.rows:
            parts += [f"### {escaped(section.pairs.title)}", section.pairs.markdown()]
        parts.append(bullets(section.corrected))
    if shown.watched.rows or shown.unwatched:
        watched = shown.watched.markdown() if shown.watched.rows else ""
        parts += [f"## {shown.watched.title}", watched, bullets(shown.unwatched)]
    commands = [Cell(look_command(key)) for key in worst_sessions(comparison)["session_key"]]
    worst = Table(
        shown.worst.title,
        (*shown.worst.headings, "Details"),
        [[*row, command] for row, command in zip(shown.worst.rows, commands, strict=True)],
    )
    for table in (worst, shown.coverage):
        parts += [f"## {escaped(table.title)}", table.markdown()]
    return "\n\n".join(filter(None, [*parts, "## Method", bullets(shown.method)])) + "\n"


def markdown_answers(shown: Report) -> str:
    """Return the first screen: a row for each label, what got worse, and the answers in full."""
    if not shown.labels.rows:
        return "No scored sessions in this period."
    every, *how = shown.overview
    parts = [_sentence(shown.caveat)] if shown.caveat else []
    parts += [shown.labels.markdown(), _sentence(every)]
    if shown.alerts:
        parts += [
            f"**Regression**: {escaped(alert.alert.sentence, LONGEST_ALERT)}"
            for alert in shown.alerts
        ]
        parts.append(_sentence(shown.watch_coverage))
    for section in shown.sections:
        if section.answers:
            parts.append(
                f"**{escaped(section.finding.label)}** ({escaped(section.finding.scored_by)})"
            )
            parts.append(
                "\n".join(
                    f"* {answer.name}: **{_sentence(answer.first)}**{_sentence(answer.rest)}"
                    for answer in section.answers
                )
            )
    return "\n\n".join([*parts, *map(_sentence, how)])


def picture(found: Finding) -> str | None:
    """Return cost against quality as an inline image."""
    svg = scatter(found)
    if svg is None:
        return None
    encoded = base64.b64encode(svg.encode()).decode()
    return f"![Mean cost of a session against mean score](data:image/svg+xml;base64,{encoded})"


def _sentence(text: str) -> str:
    return escaped(text, LONGEST_SENTENCE)


def method_lines(question: Question) -> list[str]:
    """Return one or two sentences for each method."""
    nouns = question.nouns
    one, many, a_model = nouns.model, nouns.models, nouns.a_model
    alert = (
        f"Alert: the last 1 to 4 weeks are at least {ALERT_POINTS:g} points below what the "
        "previous 90 days predict for the same tasks and people. About 5% of quarters have a "
        "false alert, however often you look."
    )
    return [
        (
            "A session here is one session window with a score. It is compared only with others of "
            "the same label that have comparable scores: the same profile version and source."
        ),
        (
            f"{a_model.capitalize()} needs {question.min_runs} sessions to be ranked. Its rank is "
            f"one more than the number of {many} shown to be better, so {many} without a verdict "
            "share a rank."
        ),
        (
            "Intervals are 95%. Each person counts once, because one person's many sessions say "
            "little about others: a mean score is the mean of each person's mean. Shares and costs "
            "count all sessions. Human scores and the mean with them (avgScore in the API) "
            "are below the mean. Intervals of differences are corrected for all pairs of this "
            "report, so one excludes 0 exactly if the difference is shown."
        ),
        (
            f"If at least {MIN_PEOPLE} people used both {many}, each person is compared with "
            f"themselves. Otherwise the people of both {many} are compared. Fewer than "
            f"{MIN_PEOPLE} people on a side give no verdict, but three or four who all used both "
            "give an indication. Effects that people share on a day widen the "
            f"interval. A verdict needs a week in which both {many} were used."
        ),
        (
            "A verdict compares the same task mix: within task classes, weighted by the classes of "
            f"both {many} together. At most 5% of reports have any false verdict on quality. Half "
            f"of it is for {a_model} that beats every other, half for all pairs."
        ),
        (
            f"Best value: the cheapest {one} shown to be less than {question.margin:g} points "
            "below every other one (one-sided, from the same differences). At "
            f"most 5% of reports name a wrong one, shared by Holm's method over all {many} that "
            "cost less than another."
        ),
        (
            "If scores are near 100 and few sessions fail, failures and other sessions are tested "
            "separately, because a handful of failures decides the mean."
        ),
        (
            "A session that failed before any tool call counts as 0. Disqualified sessions are in "
            f"no average, and {a_model} that is disqualified more often is not called better. "
            "Costs are compared for the same tasks by geometric means. A mean cost of fewer than "
            f"{SMALLEST_SURE} sessions is rough."
        ),
        (
            "The 5% hold if you look once. If you look every night and stop at the first verdict, "
            "you are wrong more often."
        ),
        (
            "p: how often chance alone gives such a difference, corrected for all pairs. Sessions "
            f"needed: with this many of each {one}, 4 of 5 comparisons show a difference of "
            f"{RELEVANT_POINTS:g} points."
        ),
        f"Frontier: no ranked {one} has both a lower mean cost and a higher mean score.",
        *([alert] if question.by.compares_models else []),
        (
            f"These are observations, not an experiment: people choose {a_model} for a task. "
            "Differences beyond the task class are not controlled for, such as how hard a task is "
            f"or which {one} a judge favors."
        ),
    ]
