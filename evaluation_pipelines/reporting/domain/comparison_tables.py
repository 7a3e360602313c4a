"""Tables of the report about a comparison, for the HTML page, Markdown and the terminal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation_pipelines.comparison.domain.answers import LabelAnswers
from evaluation_pipelines.comparison.domain.compare import Comparison, worst_sessions
from evaluation_pipelines.comparison.domain.findings import scored_by
from evaluation_pipelines.comparison.domain.models import (
    SMALLEST_COVERAGE,
    Row,
    known_costs,
    name_of,
)
from evaluation_pipelines.comparison.domain.pairwise import A_BETTER, B_BETTER, NOT_DECIDED
from evaluation_pipelines.comparison.domain.regressions import ALERT
from evaluation_pipelines.comparison.domain.runs import PEOPLE, Nouns
from evaluation_pipelines.formatting import (
    DASH,
    duration,
    interval,
    markdown_table,
    percent,
    points,
    probability,
    signed,
    usd,
    whole,
)
from evaluation_pipelines.numerics.skewed import SMALLEST_SURE

UNKNOWN = "unknown"


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

    @property
    def flat(self) -> str:
        """The cell as one text."""
        tag = f" [{self.tag_word}]" if self.tag else ""
        return f"{self.shown}{tag}{f' ({self.below})' if self.below else ''}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a heading that ends in ``" #"`` is of a column of numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        names = [name.removesuffix(" #") for name in self.headings]
        return markdown_table(names, ([cell.flat for cell in row] for row in self.rows))


def number_cell(shown: str, sort: float | None, below: str = "") -> Cell:
    """Return a cell with a number."""
    return Cell(shown, below, sort, "n")


def label_table(rows: Sequence[LabelAnswers], nouns: Nouns, link: Callable[[int], str]) -> Table:
    """Return the answers for each label in short; the name of one with answers links to ``link``.

    Args:
        rows: The labels.
        nouns: Words for models and sessions.
        link: Number of a row -> address.
    """
    headings = ("Label", "Quality", "Value", f"Cost per {nouns.session}", "Confidence")
    return Table(
        "Labels",
        (*headings, f"{nouns.sessions.capitalize()} #"),
        [_label_cells(row, nouns, link(at) if row.answers else "") for at, row in enumerate(rows)],
    )


def _label_cells(row: LabelAnswers, nouns: Nouns, link: str) -> list[Cell]:
    label = Cell(row.finding.label, kind="name", link=link)
    sessions = number_cell(f"{whole(row.ranked)} of {whole(row.sessions)}", row.ranked)
    if row.too_few is not None:
        most = f"{row.too_few} of {row.finding.question.min_runs}"
        return [label, Cell(f"too few {nouns.sessions}", most), *[Cell(DASH)] * 3, sessions]
    quality, value, cost, confidence, *_ = row.answers
    return [
        label,
        Cell(
            quality.first,
            tag="conclusive:good" if row.finding.is_decided and confidence.first != "none" else "",
        ),
        Cell(value.first),
        Cell(cost.first),
        Cell(confidence.first, "1 person" if row.people == 1 else f"{whole(row.people)} people"),
        sessions,
    ]


def model_table(
    title: str, rows: Sequence[Row], nouns: Nouns, link: Callable[[Row], str] | None = None
) -> Table:
    """Return the numbers of each model; its name links to ``link``."""
    headings = (
        *(nouns.model.capitalize(), "Rank #", f"{nouns.sessions.capitalize()} #", "Mean score #"),
        *("Passed #", f"Cost per {nouns.session} #", "Points per $ #"),
    )
    return Table(
        title, headings, [model_cells(row, nouns, link(row) if link else "") for row in rows]
    )


def model_cells(row: Row, nouns: Nouns, link: str = "") -> list[Cell]:
    """Return the cells of one model; its name links to ``link``."""
    tag = f"too few {nouns.sessions}" if row["state"] == "insufficient" else ""
    if row["on_frontier"]:
        tag = "frontier"
    if row["is_best_value"]:
        tag = "best value:good"
    return [
        Cell(name_of(row), kind="name", tag=tag, link=link),
        number_cell(DASH if row["rank"] is None else str(row["rank"]), row["rank"]),
        number_cell(whole(row["runs"]), row["runs"], _clusters(row, nouns)),
        _score_cell(row),
        _with_ends(row, "pass_rate", percent),
        *_bill_cells(row),
    ]


def _score_cell(row: Row) -> Cell:
    """Return the mean score, and below it that of human scores."""
    cell = _with_ends(row, "avg_score", points)
    if not row["people_runs"]:
        return cell
    people = f"{row['people_runs']} scored by people: {points(row['people_score'])}"
    if row["avg_effective_score"] is not None:
        people = f"{people}, mean including these: {points(row['avg_effective_score'])}"
    return replace(cell, below=f"{cell.below}; {people}")


def _bill_cells(row: Row) -> list[Cell]:
    """Return the cost of a run and the points per dollar.

    Where too many costs are unknown, those that are known say nothing of a run. A few runs say
    next to nothing about all others: without a rank, there are no intervals.
    """
    cost, worth = _with_ends(row, "avg_cost_usd", usd), _with_ends(row, "score_per_dollar", whole)
    known, runs = known_costs(row), int(row["runs"])
    of_known = f"known for {whole(known)} of {whole(runs)}" if known < runs else ""
    if known < SMALLEST_COVERAGE * runs:
        cost = number_cell(DASH, None)
    if row["state"] != "ranked":
        return [replace(cost, below=of_known), replace(worth, below="")]
    # Few runs may miss the rare, very expensive ones.
    rough = ", rough" if cost.below and runs < SMALLEST_SURE else ""
    below = "; ".join(filter(None, (f"{cost.below}{rough}", of_known)))
    return [replace(cost, below=below), worth]


def _with_ends(row: Row, name: str, shown: Callable[[float | None], str]) -> Cell:
    low, high = (shown(row[f"{name}_{end}"]) for end in ("low", "high"))
    return number_cell(shown(row[name]), row[name], interval(low, high))


def _clusters(row: Row, nouns: Nouns) -> str:
    if row["clustered_by"] is None:
        return ""
    by_people = row["clustered_by"] == PEOPLE
    one, many = ("person", "people") if by_people else (nouns.session, nouns.sessions)
    parts = [f"{row['clusters']} {one if row['clusters'] == 1 else many}"]
    if failed := row["failed_at_start"]:
        parts.append(f"{failed} failed at the start")
    if row["disqualified"]:
        parts.append(f"{whole(row['disqualified'])} disqualified")
    return "; ".join(parts)


def pair_table(title: str, rows: Sequence[Row], nouns: Nouns) -> Table:
    """Return the pairs of models."""
    headings = ("A and B", "Result", "A - B, same task mix #", "p #")
    needed = f"{nouns.sessions.capitalize()} needed #"
    return Table(title, (*headings, needed), [pair_cells(row, nouns) for row in rows])


def pair_cells(pair: Row, nouns: Nouns) -> list[Cell]:
    """Return the cells of a pair of models."""
    needed = pair["runs_needed"]
    below = [interval(signed(pair["adjusted_low_holm"]), signed(pair["adjusted_high_holm"]))]
    if pair["without_failed"] is not None:
        below.append(f"without failed starts {signed(pair['without_failed'])}")
    return [
        Cell(name_of(pair, "_a"), f"and {name_of(pair, '_b')}", kind="name"),
        _verdict_cell(pair),
        number_cell(
            signed(pair["adjusted_difference"]),
            pair["adjusted_difference"],
            "; ".join(filter(None, below)),
        ),
        number_cell(probability(pair["adjusted_p_holm"]), pair["adjusted_p_holm"]),
        number_cell(whole(needed), needed, "" if needed is None else f"per {nouns.model}"),
    ]


def _verdict_cell(pair: Row) -> Cell:
    """Return the verdict with its reason, and with an indication where that is all there is."""
    sides = {A_BETTER: "_a", B_BETTER: "_b"}
    if better := sides.get(pair["verdict"]):
        return Cell(f"{name_of(pair, better)} better", kind="said", tag="conclusive:good")
    hinted = sides.get(pair["indication"])
    hint = f". Indication: {name_of(pair, hinted)} better" if hinted else ""
    verdict = "inconclusive" if pair["verdict"] == NOT_DECIDED else pair["verdict"]
    return Cell(verdict, f"{pair['reason'] or ''}{hint}", kind="said")


def watch_table(rows: Sequence[Row]) -> Table:
    """Return the models that are monitored for getting worse."""
    return Table(
        "Monitoring",
        ("Model", "State", "Change #", "Since", "Recent #", "Before, same task mix #"),
        list(map(_watch_cells, rows)),
    )


def _watch_cells(row: Row) -> list[Cell]:
    state, tag = {ALERT: ("lower", "alert:bad"), "lower": ("lower", "small:bad")}.get(
        row["state"], (row["state"], "")
    )
    ends = interval(signed(row["change_low"]), signed(row["change_high"]))
    return [
        Cell(name_of(row), row["classification_label"], kind="name"),
        Cell(state, tag=tag),
        number_cell(signed(row["change"]), row["change"], ends),
        Cell(f"{row['window_since']:%Y-%m-%d}", kind="time"),
        _watched_cell(row, "recent"),
        _watched_cell(row, "before"),
    ]


def _watched_cell(row: Row, side: str) -> Cell:
    """Return the mean score of a side, and how many of its runs failed where that is known."""
    runs = f"{whole(row[f'{side}_runs'])} sessions"
    if row[f"{side}_failed"] is not None:
        runs = f"{runs}, {row[f'{side}_failed']} not passed"
    score = row[f"{side}_score"]
    return number_cell(points(score), score, runs)


def coverage_table(
    lines: Sequence[Row],
    nouns: Nouns,
    link: Callable[[Mapping[str, Any]], str] | None = None,
) -> Table:
    """Return how many sessions are not ranked, and why; an example links to ``link``."""
    plural = nouns.sessions.capitalize()
    return Table(
        f"{plural} not ranked",
        ("Group", f"{plural} #", "Reason", "Example"),
        [
            [
                Cell(line["what"].replace("model", nouns.model)),
                number_cell(whole(line["sessions"]), line["sessions"]),
                Cell(line["why"]),
                Cell(line["session_key"], link=link(line) if link else ""),
            ]
            for line in lines
            if line["what"] != "ranked"
        ],
    )


def worst_table(
    comparison: Comparison, link: Callable[[Mapping[str, Any]], str] | None = None
) -> Table:
    """Return the worst sessions; each links to its card, or to ``link``.

    They are the worst by the automatic score, as in all figures; what a person said is below it.
    Rows link to cards by number: a text of telemetry is never an id.
    """
    what = comparison.question.nouns.model.capitalize()
    return Table(
        "Lowest scores",
        ("Automatic score #", "Session", what, "Started (UTC)", "Cost #"),
        [
            _worst_cells(row, link(row) if link else f"#session-{number}")
            for number, row in enumerate(worst_sessions(comparison).iter_rows(named=True), 1)
        ],
    )


def _worst_cells(row: Row, link: str) -> list[Cell]:
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


def look_command(key: str) -> str:
    """Return the command that shows a session in a terminal, quoted for a shell."""
    quoted = key.replace("'", "'\\''")
    return f"evaluation-pipelines show '{quoted}'"


def worst_cards(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a card for each of the worst sessions, in the order of the table."""
    of_card = ("card_id", "scale_min", "scale_max", "reasoning", "disqualifier_triggered")
    known = worst_sessions(comparison).join(
        comparison.cards.select(of_card),
        on="card_id",
        how="left",
        validate="m:1",
        maintain_order="left",
    )
    nouns = comparison.question.nouns
    return [_card(number, row, nouns) for number, row in enumerate(known.iter_rows(named=True), 1)]


def _card(number: int, row: Row, nouns: Nouns) -> dict[str, Any]:
    marks = {"disqualified": row["is_disqualified"], "quality risk": row["quality_risk"]}
    source = (row["profile_id"], row["profile_version"], row["effective_source"])
    return {
        "id": f"session-{number}",
        "number": number,
        "session_key": row["session_key"],
        "score": points(row["score"]),
        # A run that failed at once stands in the row of others.
        "scored_by": scored_by(*((None, None, "status") if row["failed_at_start"] else source)),
        "tags": [mark for mark, is_set in marks.items() if is_set],
        "facts": _facts(row, nouns),
        "texts": _texts(row),
        "command": look_command(row["session_key"]),
    }


def _facts(row: Row, nouns: Nouns) -> dict[str, str]:
    """Return facts by name; the masque if one was worn, the score by a person if there is one."""

    def known(name: str, shown: Callable[[Any], str] = str) -> str:
        return UNKNOWN if row[name] is None else shown(row[name])

    def yes(name: str, why: str) -> str:
        return known(name, lambda is_set: f"yes, {why}" if is_set else "no")

    rule, profile = row["disqualifier_triggered"], row["risk_profile_id"]
    calls = f"{whole(row['tools_ok'])} ok, {whole(row['tools_failed'])} failed"
    return {
        nouns.model.capitalize(): name_of(row),
        "Label": known("classification_label"),
        "Task class": known("task_class"),
        "Status": known("status"),
        "Organization": known("organization_id"),
        "Agent": known("agent_id"),
        **({} if row["masque"] is None else {"Masque": row["masque"]}),
        **(
            {}
            if row["people_score"] is None
            else {"Score by a person": points(row["people_score"])}
        ),
        "Started (UTC)": f"{row['started_at']:%Y-%m-%d %H:%M}",
        "Active time": known("active_ms", duration),
        "Cost": known("cost_usd", usd),
        "Tokens": known("total_tokens", whole),
        "Tool calls": UNKNOWN if None in (row["tools_ok"], row["tools_failed"]) else calls,
        "Disqualified": yes("disqualified", f"by {rule or 'an unknown rule'}"),
        "Quality risk": yes(
            "quality_risk", f"below {f'the limit of {profile}' if profile else 'the usual limit'}"
        ),
    }


def _texts(row: Row) -> list[str]:
    """Return the reasoning of the scorecard on its own scale; empty without one."""
    if row["reasoning"] is None:
        return []
    computed, *judged = row["reasoning"].split("\n\n")
    scale = f"{row['scale_min']:g} to {row['scale_max']:g}"
    return [
        f"Scorecard: {points(row['score'])} of 100. On its scale, {scale}: {computed}",
        *judged,
    ]
