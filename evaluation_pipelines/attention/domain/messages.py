"""Texts of alerts: what happened, where, and what to do.

Parts of an alert are untrusted: names of models and sessions, texts of errors. They are shown as
short plain text, whatever chat program receives the alert.
"""

import html
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from evaluation_pipelines.formatting import pluralize, usd
from evaluation_pipelines.scorecards.domain.withheld import SessionKey

JUDGE_DOWN, OPEN_BOOKS, PARKED = "judge_down", "open_books", "parked"
DAMAGED = "damaged"
QUALITY_RISKS, REGRESSION, STALE = "quality_risk", "regression", "stale"
DIGEST, FAILED_RUN, UNJUDGED = "digest", "failed_run", "unjudged"
SPENDING, RISE = "spending", "rise"
NOT_CURRENT, NOT_PUBLISHED = "not_current", "not_published"

LISTED = 5
"""Sessions or steps listed in one alert; more are only counted."""

_SOURCES = {"scorecard": "profile", "override": "human", "status": "failed"}
"""Sources of a score as people read them; the others are words already."""

LONGEST_LINE = 500
"""Characters of a line of an alert."""

_LONGEST = 300
_LONGEST_KEY = 80
_LONGEST_TITLE = 200
_ACTIVE = re.compile(r"@|:(?=//)|\](?=\()")
_RUN = re.compile(r"\(run ([0-9A-Za-z-]+)\)$")
_ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Alerts of the same ``kind`` and ``cause`` are the same alert, sent once."""

    kind: str
    cause: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RaisedAlert:
    """An alert in the ledger; ``sent_at`` and ``ended_at`` are ``None`` until then."""

    alert_id: int
    alert: Alert
    raised_at: datetime
    sent_at: datetime | None
    ended_at: datetime | None


def sanitize(value: object, longest: int = _LONGEST) -> str:
    """Return ``value`` as one line of plain text, cut at ``longest`` characters.

    The result contains no mention, link or markup of a chat program.
    """
    text = "".join(character if character.isprintable() else " " for character in str(value))
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return _ACTIVE.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, html.escape(text, quote=False))


_JUDGE_NOW = "To judge it now: evaluation-pipelines judge run"
_REPORTED = {
    UNJUDGED: (
        "Nightly judging did not finish",
        "Fix the endpoint. Nothing is lost: the rest is judged the next night.",
        _JUDGE_NOW,
    ),
    JUDGE_DOWN: (
        "Judge endpoint not responding",
        "Fix the endpoint. Nothing is lost: the rest is judged in the next run.",
        _JUDGE_NOW,
    ),
    OPEN_BOOKS: (
        "Books of {cause} are not complete",
        "The page of the day shows what does not add up.",
        "Details: evaluation-pipelines books {cause}",
    ),
    NOT_CURRENT: (
        "The service cannot read and build new telemetry",
        "Read its log. Nothing is lost: it tries again.",
        "To try it by hand: evaluation-pipelines ingest, then evaluation-pipelines build",
    ),
    NOT_PUBLISHED: (
        "The analysts' database is not up to date",
        "Read the log. The previous version is unchanged.",
        "To try it by hand: evaluation-pipelines publish",
    ),
}
"""Kind of alert that a run or process raises about itself -> title, remedy, and command."""

_REMEDIES = {
    FAILED_RUN: "Read the log of the run.",
    SPENDING: "Look at the most expensive sessions, or raise the limit.",
}


def reported(kind: str, cause: object, reason: str) -> Alert:
    """Return the alert of a kind of _REPORTED: its words, with the reason first."""
    title, remedy, command = (line.format(cause=cause) for line in _REPORTED[kind])
    return Alert(kind, f"{cause}", title, f"{sanitize(reason)}\n{remedy} {command}")


def advice_of(kind: str, cause: str) -> tuple[str | None, str | None]:
    """Return the remedy of an alert that a run raised, and the command."""
    if kind not in _REPORTED:
        return _REMEDIES.get(kind), None
    _, remedy, command = _REPORTED[kind]
    return remedy, command.format(cause=cause)


def days_of(period: str) -> tuple[date, date]:
    """Return the first and last day of a day or month of spending."""
    if len(period) == len("2026-12-01"):
        return date.fromisoformat(period), date.fromisoformat(period)
    first = date.fromisoformat(f"{period}-01")
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def quality_risk_alert(cause: str, risks: Sequence[Mapping[str, Any]]) -> Alert:
    """Report sessions whose effective score is a risk; ``risks`` are payloads of their events."""
    shown = [
        f"{sanitize(risk['session_key'], _LONGEST_KEY)}: {risk['effective_100']:.0f} of 100 "
        f"({_SOURCES.get(source := risk['effective_source'], source)}, "
        f"model {_name(risk['model'])}, label {_name(risk['classification_label'])})"
        for risk in risks[:LISTED]
    ]
    if len(risks) > LISTED:
        shown.append(f"and {len(risks) - LISTED:,} more")
    advice = "Details: evaluation-pipelines show SESSION"
    return Alert(QUALITY_RISKS, cause, below_threshold(len(risks)), "\n".join([*shown, advice]))


def below_threshold(number: int) -> str:
    """Return the number of sessions with a score below the threshold, as a text."""
    return (
        f"{pluralize(number, 'session')} scored below {'its' if number == 1 else 'their'} threshold"
    )


def without_sessions(alert: Alert, sessions: Collection[SessionKey]) -> Alert:
    """Return a regression without its lines about some sessions; others as they are.

    A line has no organization: one about a session of the same name in another is left out, too.
    """
    if alert.kind != REGRESSION:
        return alert
    starts = tuple(sanitize(f"{key}: score ", LONGEST_LINE).rstrip("…") for _, key in sessions)
    bare = {sanitize(key, LONGEST_LINE) for _, key in sessions}  # without its score
    lines = [line for line in alert.text.splitlines() if line not in bare]
    return replace(alert, text="\n".join(line for line in lines if not line.startswith(starts)))


def regression_cause(row: Mapping[str, Any]) -> str:
    """Return the cause shared by all rows of ``model_regressions`` about the same regression."""
    names = ("classification_label", "profile_id", "profile_version", "model", "provider")
    variant = [] if row["model_variant"] is None else [row["model_variant"]]
    return " / ".join([*(str(row[name]) for name in names), *variant])


def failed_run_alert(job: str, steps: Sequence[str], run_id: str, reason: str, day: date) -> Alert:
    """Report a failed run; the same steps of a job are reported once a day."""
    where = ", ".join(sanitize(step, 60) for step in steps[:LISTED]) or "none started"
    return Alert(
        FAILED_RUN,
        f"{job} / {', '.join(steps)} / {day}",
        f"Run failed: {sanitize(job, 80)}",
        f"Step: {where} (run {run_id})\n{sanitize(reason)}\n"
        "See its log in Dagster. This failure is reported once a day.",
    )


def run_of(alert: Alert) -> str | None:
    """Return the id of the run that an alert about a failed run names; ``None``: it names none."""
    first, *_ = alert.text.splitlines() or [""]
    found = _RUN.search(first)
    return None if found is None else found[1]


def spending_alert(
    period: str,
    spender: str,
    names: Sequence[str],
    limit_usd: float,
    sessions: Sequence[Mapping[str, Any]],
) -> Alert:
    """Report a spender who passed a limit.

    Args:
        period: The day or month.
        spender: organization, team or person.
        names: Name of the spender, and of the organization of a team.
        limit_usd: The limit.
        sessions: Their sessions with ``cost_usd`` and the number of requests whose cost is
            ``unknown``, most expensive first.
    """
    spent = usd(sum(session["cost_usd"] for session in sessions))
    unknown = sum(session["unknown"] for session in sessions)
    if unknown:
        spent = f"at least {spent}"
    shown = [
        f"{sanitize(session['session_key'], _LONGEST_KEY)}: {usd(session['cost_usd'])} "
        f"(model {_name(session['model'])})"
        for session in sessions[:LISTED]
    ]
    if len(sessions) > LISTED:
        shown.append(f"and {len(sessions) - LISTED:,} more")
    if unknown:
        shown.append(f"Requests without a known price: {unknown:,}")
    who = f"{spender} {' of '.join(map(_name, names))}"
    return Alert(
        SPENDING,
        " / ".join((period, spender, *names)),
        f"{who} spent {spent} in {period}"[:_LONGEST_TITLE],
        "\n".join((f"The limit is {usd(limit_usd)}. The most expensive sessions:", *shown)),
    )


def names_person(kind: str, cause: str) -> bool:
    """Return True if an alert names a person: one who spent more than the limit."""
    return kind == SPENDING and " / person / " in cause


def _name(value: object) -> str:
    return "unknown" if value is None else sanitize(value, 60)
