"""Rows of the report's tables: the same words for the HTML page, Markdown and the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import polars as pl

from evaluation_pipelines.comparison.domain.answers import LabelAnswers, known_costs
from evaluation_pipelines.comparison.domain.compare import Comparison, CoverageLine
from evaluation_pipelines.comparison.domain.findings import Finding, name_of
from evaluation_pipelines.comparison.domain.models import SMALLEST_COVERAGE, Row
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, NOT_DECIDED
from evaluation_pipelines.comparison.domain.regressions import ALERT, INSUFFICIENT
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, PEOPLE
from evaluation_pipelines.formatting import (
    DASH,
    interval,
    percent,
    points,
    probability,
    signed,
    usd,
    whole,
)
from evaluation_pipelines.numerics.skewed import SMALLEST_SURE

LABEL_HEADINGS = ("Label", "Quality", "Value", "Cost per session", "Confidence", "Sessions #")
MODEL_HEADINGS = (
    "Model",
    "Rank #",
    "Sessions #",
    "Mean score #",
    "Passed #",
    "Cost per session #",
    "Points per $ #",
)
PAIR_HEADINGS = ("A and B", "Result", "A - B, same task mix #", "p #", "Sessions needed #")
WATCH_HEADINGS = ("Model", "State", "Change #", "Since", "Recent #", "Before, same task mix #")
WORST_HEADINGS = ("Automatic score #", "Session", "Model", "Started (UTC)", "Cost #")
ACCOUNT_HEADINGS = ("Group", "Reason", "Sessions #", "Example")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table, for HTML, Markdown and the terminal.

    Attributes:
        shown: Text of the cell.
        below: Smaller text below it.
        sort: Number to sort by; by ``shown`` if None.
        kind: Class of the cell: ``n`` for numbers, ``name``, ``said``, ``time``, or empty.
        tag: A word next to the text, optionally with a class after a colon: ``best:good``.
        link: Address that the text links to; what telemetry says in it is percent-encoded.
    """

    shown: str
    below: str = ""
    sort: float | None = None
    kind: str = ""
    tag: str = ""
    link: str = ""

    @property
    def tag_word(self) -> str:
        """Text of the tag."""
        return self.tag.partition(":")[0]

    @property
    def tag_class(self) -> str:
        """CSS class of the tag."""
        return self.tag.partition(":")[2]


def number_cell(shown: str, sort: float | None, below: str = "") -> Cell:
    """Return a cell with a number."""
    return Cell(shown, below, sort, "n")


def label_cells(row: LabelAnswers, link: str = "") -> list[Cell]:
    """Return the answers for a label in short; its name leads to ``link``."""
    finding, ranked = row.finding, row.ranked
    sessions = number_cell(f"{whole(ranked)} of {whole(row.sessions)}", ranked)
    if row.too_few is not None:
        few = Cell("too few sessions", row.too_few)
        return [Cell(finding.label, kind="name", link=link), few, *[Cell(DASH)] * 3, sessions]
    quality, value, cost, confidence, *_ = row.answers
    return [
        Cell(finding.label, kind="name", link=link),
        Cell(quality.first, tag="conclusive:good" if finding.is_decided else ""),
        Cell(value.first),
        Cell(cost.first),
        Cell(confidence.first, "1 person" if row.people == 1 else f"{whole(row.people)} people"),
        sessions,
    ]


def model_cells(row: Row, link: str = "") -> list[Cell]:
    """Return the cells of one model; its name leads to ``link``."""
    tag = "too few sessions" if row["state"] == "insufficient" else ""
    if row["on_frontier"]:
        tag = "frontier"
    if row["is_best_value"]:
        tag = "best value:good"
    return [
        Cell(name_of(row), kind="name", tag=tag, link=link),
        number_cell(DASH if row["rank"] is None else str(row["rank"]), row["rank"]),
        number_cell(whole(row["runs"]), row["runs"], _clusters(row)),
        _score_cell(row),
        _with_ends(row, "pass_rate", percent),
        *_bill_cells(row),
    ]


def _score_cell(row: Row) -> Cell:
    """Return the mean score, and below it that of human scores."""
    cell = _with_ends(row, "avg_score", points)
    if not row["people_runs"]:
        return cell
    people = f"{row['people_runs']} human: {points(row['people_score'])}"
    if row["avg_effective_score"] is not None:
        people = f"{people}; mean with these: {points(row['avg_effective_score'])}"
    return replace(cell, below=f"{cell.below}; {people}")


def _bill_cells(row: Row) -> list[Cell]:
    """Return the cost of a run and the points per dollar.

    Where too many costs are unknown, those that are known say nothing of a run. A few runs say
    next to nothing about all others: without a rank, there are no intervals.
    """
    cells = [
        _with_ends(row, "avg_cost_usd", usd),
        _with_ends(row, "score_per_dollar", whole),
    ]
    known, runs = known_costs(row), int(row["runs"])
    of_known = f"known for {whole(known)} of {whole(runs)}" if known < runs else ""
    if known < SMALLEST_COVERAGE * runs:
        cells[0] = number_cell(DASH, None)
    if row["state"] != "ranked":
        return [replace(each, below="" if at else of_known) for at, each in enumerate(cells)]
    # Few runs may miss the rare, very expensive ones.
    if cells[0].below and runs < SMALLEST_SURE:
        cells[0] = replace(cells[0], below=f"{cells[0].below}, rough")
    cells[0] = replace(cells[0], below="; ".join(filter(None, (cells[0].below, of_known))))
    return cells


def pair_cells(pair: Row) -> list[Cell]:
    """Return the cells of a pair of models."""
    needed = pair["runs_needed"]
    ends = interval(signed(pair["adjusted_low_holm"]), signed(pair["adjusted_high_holm"]))
    return [
        Cell(name_of(pair, "_a"), f"and {name_of(pair, '_b')}", kind="name"),
        _verdict_cell(pair),
        number_cell(
            signed(pair["adjusted_difference"]),
            pair["adjusted_difference"],
            "; ".join(filter(None, (ends, _without_failed(pair)))),
        ),
        number_cell(probability(pair["adjusted_p_holm"]), pair["adjusted_p_holm"]),
        number_cell(whole(needed), needed, "" if needed is None else "per model"),
    ]


def _verdict_cell(pair: Row) -> Cell:
    """Return the verdict with its reason, and with an indication where that is all there is."""
    better = {A_BETTER: "_a", B_BETTER: "_b"}.get(pair["verdict"])
    if better is not None:
        return Cell(f"{name_of(pair, better)} better", kind="said", tag="conclusive:good")
    hinted = {A_BETTER: "_a", B_BETTER: "_b"}.get(pair["indication"])
    hint = f". Indication: {name_of(pair, hinted)} better" if hinted else ""
    verdict = "inconclusive" if pair["verdict"] == NOT_DECIDED else pair["verdict"]
    return Cell(verdict, f"{pair['reason'] or ''}{hint}", kind="said")


def _without_failed(pair: Row) -> str:
    """Return the difference for the same tasks without runs that failed at the start."""
    if pair["without_failed"] is None:
        return ""
    return f"without failed starts {signed(pair['without_failed'])}"


def watch_cells(row: Row) -> list[Cell]:
    """Return the cells of one model in the regression watch."""
    state, tag = {ALERT: ("lower", "alert:bad"), "lower": ("lower", "small:bad")}.get(
        row["state"], (row["state"], "")
    )
    return [
        Cell(name_of(row), row["classification_label"], kind="name"),
        Cell(state, tag=tag),
        number_cell(
            signed(row["change"]),
            row["change"],
            interval(signed(row["change_low"]), signed(row["change_high"])),
        ),
        Cell(f"{row['window_since']:%Y-%m-%d}", kind="time"),
        _watched_cell(row, "recent"),
        _watched_cell(row, "before"),
    ]


def unwatched_lines(comparison: Comparison) -> list[str]:
    """Return which ranked models are not watched, and what it would take; others are counted."""
    every = comparison.regressions.filter(pl.col("state") == INSUFFICIENT)
    ranked = comparison.models.filter(pl.col("state") == "ranked")
    named = every.join(ranked, on=[*GROUP, *MODEL], how="semi", nulls_equal=True)
    lines = [
        f"{name_of(row)} ({row['classification_label']}) is not monitored yet: {row['missing']}."
        for row in named.iter_rows(named=True)
    ]
    if others := every.height - named.height:
        lines.append(f"Too few sessions to monitor: {others} more model-label pairs.")
    return lines


def _watched_cell(row: Row, side: str) -> Cell:
    """Return the mean score of a side, and how many of its runs failed where that is known."""
    runs = f"{whole(row[f'{side}_runs'])} sessions"
    if row[f"{side}_failed"] is not None:
        runs = f"{runs}, {row[f'{side}_failed']} not passed"
    score = row[f"{side}_score"]
    return number_cell(points(score), score, runs)


def worst_cells(row: Row, link: str = "") -> list[Cell]:
    """Return the cells of one of the worst sessions; its key leads to ``link``.

    They are the worst by the automatic score, as in all figures; what a person said is below it.
    """
    person = row["people_score"]
    by_person = "" if person is None else f"human {points(person)}"
    said = ", ".join(filter(None, (row["classification_label"], row["status"])))
    return [
        number_cell(points(row["score"]), row["score"], by_person),
        Cell(row["session_key"], said, link=link),
        Cell(name_of(row), row["task_class"] or ""),
        Cell(f"{row['started_at']:%Y-%m-%d %H:%M}", kind="time"),
        number_cell(usd(row["cost_usd"]), row["cost_usd"]),
    ]


def look_command(row: Row) -> str:
    """Return the command that shows a session in a terminal."""
    return f"evaluation-pipelines show {quoted(row['session_key'])}"


def account_cells(account: CoverageLine, link: str = "") -> list[Cell]:
    """Return how many sessions are not ranked, and why; the example leads to ``link``."""
    return [
        Cell(account.what),
        Cell(account.why),
        number_cell(whole(account.sessions), account.sessions),
        Cell(account.example, link=link),
    ]


def judge_lines(finding: Finding) -> list[str]:
    """Return the mean score of each ranked model corrected by audits, or why there is none.

    Each session counts once here, where each person does in the table of models.
    """
    lines = []
    for row in finding.ranked:
        if row["naive_score"] is None:
            continue
        naive = f"{name_of(row)}: automatic mean {points(row['naive_score'])}"
        if row["corrected_score"] is None:
            lines.append(f"{naive}, not corrected yet ({row['correction_reason']}).")
            continue
        low, high = points(row["corrected_score_low"]), points(row["corrected_score_high"])
        lines.append(
            f"{naive}. Corrected by {row['audited']} human reviews: "
            f"{points(row['corrected_score'])} ({low} to {high}).{_unanswered(row)}"
        )
    return lines


def _unanswered(row: Row) -> str:
    """Return the interval whatever the answers to the reviews without one."""
    if not row["unanswered"]:
        return ""
    low, high = points(row["corrected_score_lowest"]), points(row["corrected_score_highest"])
    return f" Unanswered reviews: {row['unanswered']}. Whatever their answers: {low} to {high}."


def errors_line(rows: Sequence[Row]) -> str:
    """Return which kinds of standard errors the intervals of some rows use."""
    kinds = {row["clustered_by"] for row in rows if row["clustered_by"] is not None}
    if kinds == {PEOPLE}:
        return (
            "Each person counts once here. Lists and trends average sessions, so their means "
            "differ."
        )
    return (
        "People are unknown for more than a fifth of a model's sessions, so each session and day "
        "counts once. If sessions of one person are similar, the intervals are too narrow. No "
        "verdict rests on them."
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
    if asked.within is not None:
        text += f", compared within each {asked.within}"
    if comparison.as_of is not None:
        text += f", scores as of {_time(comparison.as_of)}"
    return f"{text}. Updated {_time(comparison.computed_at)}."


def quoted(key: str) -> str:
    """Return a session key quoted for a shell."""
    return "'" + key.replace("'", "'\\''") + "'"


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


def _with_ends(row: Row, name: str, shown: Callable[[float | None], str], suffix: str = "") -> Cell:
    low, high = (shown(row[f"{name}_{end}{suffix}"]) for end in ("low", "high"))
    return number_cell(shown(row[name]), row[name], interval(low, high))


def _clusters(row: Row) -> str:
    if row["clustered_by"] is None:
        return ""
    one, many = ("person", "people") if row["clustered_by"] == PEOPLE else ("session", "sessions")
    parts = [f"{row['clusters']} {one if row['clusters'] == 1 else many}"]
    if failed := row["failed_at_start"]:
        parts.append(f"{failed} failed at the start")
    if row["disqualified"]:
        parts.append(f"{whole(row['disqualified'])} disqualified")
    return "; ".join(parts)
