"""A week in short: what got better and worse, verdicts, cost, losses, and what was left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.items import Facts, rise_cause
from evaluation_pipelines.attention.domain.messages import (
    DIGEST,
    Alert,
    regression_cause,
    sanitize,
)
from evaluation_pipelines.comparison.domain.before_after import BeforeAfter, State, compared_with
from evaluation_pipelines.formatting import number, points, usd, whole
from evaluation_pipelines.outcomes.domain.by_session import TRACKED_DAYS
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED

BY: Mapping[str, Sequence[str]] = {
    "model": ("model",),
    "label": ("classification_label",),
    "agent": ("agent_name", "organization_id"),
}
"""What is compared with the days before -> the columns of its name."""

_MEASURED: Sequence[State] = ("better", "worse", "unclear")
_MOST = 5
_DECIDED = {"a_better": "model_a", "b_better": "model_b"}


@dataclass(frozen=True, slots=True)
class Shift:
    """Change of the automatic scores from the days before, for the same kinds of task.

    It is the one that the page of an agent shows for these days.

    Attributes:
        by: A name in BY.
        name: The model, the label, or the agent of an organization.
        people: People with recent compared sessions; each counts once.
        state: ``better``, ``worse`` or ``unclear``.
        change: Difference in points, recent minus before.
        low: Lower end of its 95% interval; ``None`` if the scores do not differ at all.
        high: Its upper end.
        said: The difference and the days in words.
    """

    by: str
    name: str
    people: int
    state: State
    change: float
    low: float | None
    high: float | None
    said: str

    def __str__(self) -> str:
        """Return a sentence."""
        return f"{self.by} {self.name}: {self.said}, {whole(self.people)} people"


@dataclass(frozen=True, slots=True)
class Digest:
    """A week in short; sentences are plain text and hold names from telemetry.

    Attributes:
        first: First day.
        last: Last day.
        summary: Sessions, mean score and cost, next to those of the days before.
        attention: What needs attention now.
        better: Changes for the better beyond chance, the largest first.
        worse: Models that the watch reports, agents whose failed calls or costs rose, and changes
            for the worse, the largest first.
        verdicts: Verdicts of the comparison that changed.
        losses: Tools whose calls were lost most.
        left_out: What the figures do not count.
        shifts: All changes that could be measured.
    """

    first: date
    last: date
    summary: Sequence[str]
    attention: Sequence[str]
    better: Sequence[str]
    worse: Sequence[str]
    verdicts: Sequence[str]
    losses: Sequence[str]
    left_out: Sequence[str]
    shifts: Sequence[Shift]

    @property
    def title(self) -> str:
        """What it is of."""
        return f"Agent sessions from {self.first} to {self.last}"

    @property
    def sections(self) -> dict[str, Sequence[str]]:
        """Heading -> its sentences; of an empty section, that there is nothing."""
        none = ("Nothing beyond chance.",)
        return {
            "Summary": self.summary,
            "Needs attention": self.attention or ("All clear.",),
            "Better": self.better or none,
            "Worse": self.worse or none,
            "Changed verdicts": self.verdicts or ("None.",),
            "Most lost calls": self.losses or ("None.",),
            "Not included": self.left_out,
        }

    def text(self) -> str:
        """Return it as plain text."""
        parts = [self.title]
        for heading, lines in self.sections.items():
            parts += ["", heading, *(f"- {line}" for line in lines)]
        return "\n".join(parts) + "\n"


def shift(by: str, name: Sequence[str], found: BeforeAfter) -> Shift | None:
    """Return the change of a model, label or agent; ``None`` if it cannot be told.

    Args:
        by: A name in BY.
        name: The values of its columns.
        found: Its scores against those before.
    """
    value, low, high = found.found.value, found.found.low, found.found.high
    if found.state not in _MEASURED or value is None:
        return None
    people, said = found.recent.people, compared_with(found)
    return Shift(by, " of ".join(name), people, found.state, value, low, high, said)


def beyond_chance(
    found: Iterable[Shift], regressions: Iterable[Mapping[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return sentences of what got better and what got worse, the largest changes first.

    Models with ``regressions`` are left out. The watch has a longer history of them: a second
    figure for one drop says less.
    """
    watched = {("model", row["model"]) for row in regressions}
    others = (shift for shift in found if (shift.by, shift.name) not in watched)
    furthest = sorted(others, key=lambda shift: (-abs(shift.change), shift.by, shift.name))
    better = [f"{change}" for change in furthest if change.state == "better"][:_MOST]
    return better, [f"{change}" for change in furthest if change.state == "worse"][:_MOST]


def unlisted(
    facts: Facts, regressions: Sequence[Mapping[str, Any]], rises: Sequence[Mapping[str, Any]]
) -> Facts:
    """Return facts without the regressions and rises that a digest lists as what got worse."""
    return replace(
        facts,
        regressions=_without(facts.regressions, regressions, regression_cause),
        rises=_without(facts.rises, rises, rise_cause),
    )


def _without(
    rows: Sequence[Mapping[str, Any]] | None,
    others: Sequence[Mapping[str, Any]],
    cause: Callable[[Mapping[str, Any]], str],
) -> Sequence[Mapping[str, Any]] | None:
    """Return the rows whose cause no other has."""
    known = {cause(row) for row in others}
    return rows and [row for row in rows if cause(row) not in known]


def changed_verdicts(
    now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the pairs of models whose verdict is another one than a week before.

    Args:
        now: Pairs of ``verdict_list``.
        before: Those of a week before.
    """
    earlier = dict(map(_verdict, before))
    changed = []
    for key, winner in map(_verdict, now):
        former = earlier.get(key)
        if key in earlier and winner != former:
            label, one, other = key
            said = "no longer decided" if winner is None else f"{winner} is better now"
            was = "" if former is None else f" (before: {former})"
            changed.append(f"{label}: {one} and {other}: {said}{was}")
    return changed


def summary(
    now: pl.DataFrame, before: pl.DataFrame, days: int, *, has_one_scale: bool = True
) -> list[str]:
    """Return sessions, mean score and cost of some days, next to those of as many days before.

    Args:
        now: Sessions with ``score``, IS_SCORED, ``cost_usd`` and ``merged``, as ``withhold`` and
            ``on_newest_scale`` return them.
        before: Those before.
        days: The number of days.
        has_one_scale: Whether mean scores are comparable.
    """
    former = _score(before) + ("" if has_one_scale else ", judge changed, not comparable")
    return [
        f"{whole(now.height)} sessions ({whole(before.height)} in the {days} days before)",
        f"mean score {_score(now)} of 100 (before {former}), {_sessions_behind(now)}",
        f"cost {_cost(now)} (before {_cost(before)})",
        *_merged(now, before),
    ]


def _merged(now: pl.DataFrame, before: pl.DataFrame) -> list[str]:
    """Return how many sessions were merged, if known of any."""
    this, former = (
        f"{whole(int(frame['merged'].sum()))} of {whole(frame['merged'].count())}"
        for frame in (now, before)
    )
    if not now["merged"].count():
        return []
    late = f"Sessions that ended less than {TRACKED_DAYS} days ago may still be merged"
    return [f"merged {this} sessions with a known result (before {former}). {late}"]


def most_lost(tools: pl.DataFrame) -> list[str]:
    """Return the tools whose calls were lost most; rows of ``lost_by``."""
    lost = tools.filter(pl.col("lost_calls") > 0).head(_MOST)
    return [
        f"{row['tool']}: {row['lost_calls']:g} of {row['calls']} calls "
        f"({number(row['lost_pct'], 0)}%), tokens for {usd(row['lost_usd'])}"
        for row in lost.iter_rows(named=True)
    ]


def _verdict(pair: Mapping[str, Any]) -> tuple[tuple[str, str, str], str | None]:
    """Return label and both models, in the order of their names, and the better one."""
    one, other = sorted((pair["model_a"], pair["model_b"]))
    winner = _DECIDED.get(pair["verdict"])
    return (pair["label"], one, other), None if winner is None else pair[winner]


def _score(rows: pl.DataFrame) -> str:
    found = rows["score"].mean()
    return points(found if isinstance(found, float) else None)


def _sessions_behind(rows: pl.DataFrame) -> str:
    """Return the numbers of sessions in a mean score, and of scored ones outside of it."""
    scored, shown = int(rows[IS_SCORED].sum()), rows["score"].count()
    if shown == scored:
        return f"of {whole(scored)} scored sessions"
    return (
        f"of {whole(shown)} of {whole(scored)} scored sessions. Means and changes exclude the "
        f"others ({whole(scored - shown)}), which await a blind review"
    )


def _cost(rows: pl.DataFrame) -> str:
    unknown = rows["cost_usd"].null_count()
    said = usd(float(rows["cost_usd"].sum()) if unknown < rows.height else None)
    return f"{said}, unknown for {whole(unknown)}" if unknown else said


def digest_message(digest: Digest) -> Alert:
    """Return a digest as a message; every line of it is plain text."""
    lines = [sanitize(line) for line in digest.text().splitlines()[1:]]
    return Alert(DIGEST, f"{digest.first}..{digest.last}", digest.title, "\n".join(lines).strip())
