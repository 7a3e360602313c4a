"""What people are told when something needs them: what happened, where, and what to do.

Much of it is untrusted: names of models and sessions, texts of errors. It is shown as plain text,
in few words, in whatever chat program takes the alert.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

OPEN_BOOKS, PARKED = "open_books", "parked"
QUALITY_RISKS, REGRESSION, STALE = "quality_risk", "regression", "stale"

LISTED = 5
"""More sessions or faults are only counted."""

_LONGEST = 300
_TITLE = 200
_ACTIVE = re.compile(r"@|:(?=//)|\](?=\()")
_SPACE_OF_NO_WIDTH = "\u200b"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Those of one ``kind`` and ``cause`` are the same one, told once."""

    kind: str
    cause: str
    title: str
    text: str


def untrusted(value: object, longest: int = _LONGEST) -> str:
    """One line of plain text: no mention, link or markup of a chat program, cut at ``longest``."""
    text = "".join(each if each.isprintable() else " " for each in str(value))
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return _ACTIVE.sub(lambda found: found[0] + _SPACE_OF_NO_WIDTH, html.escape(text, quote=False))


def of_parked_date(day: date, attempts: int, reason: str) -> Alert:
    """A date has failed so often that it is not tried again by itself."""
    return Alert(
        PARKED,
        str(day),
        f"session_date {day} is parked after {attempts} attempts",
        f"{untrusted(reason)}\nMend the cause, then materialize the date once more.",
    )


def of_unjudged(night: date, why: str) -> Alert:
    """The judge of a night did not do all that it was to do."""
    return Alert(
        "unjudged",
        str(night),
        "sessions were not judged",
        f"{untrusted(why)}\nNothing is lost: what is due is judged the next night. To do it now, "
        "mend the endpoint and run: evaluation-pipelines judge run",
    )


def of_quality_risks(cause: str, risks: Sequence[Mapping[str, Any]]) -> Alert:
    """Sessions whose effective score is a risk; ``risks`` are payloads of their events."""
    shown = [
        f"{untrusted(each['session_key'], 80)}: {each['effective_100']:.0f} of 100 "
        f"({untrusted(each['effective_source'], 20)}; model {_name(each['model'])}, "
        f"label {_name(each['classification_label'])})"
        for each in risks[:LISTED]
    ]
    if len(risks) > LISTED:
        shown.append(f"and {len(risks) - LISTED} more")
    number = "1 session is" if len(risks) == 1 else f"{len(risks)} sessions are"
    advice = "Look at them: evaluation-pipelines scorecards query --session SESSION"
    return Alert(QUALITY_RISKS, cause, f"{number} a quality risk", "\n".join([*shown, advice]))


def regression_cause(row: Mapping[str, Any]) -> str:
    """What makes two rows of ``model_regressions`` the same regression."""
    names = ("classification_label", "profile_id", "profile_version", "model", "provider")
    return " / ".join(str(row[name]) for name in names)


def of_regression(row: Mapping[str, Any]) -> Alert:
    """A model got worse; ``row`` is one of ``model_regressions`` whose state is alert."""
    label, model = _name(row["classification_label"]), _name(row["model"])
    return Alert(
        REGRESSION,
        regression_cause(row),
        f"{model} got worse at {label}"[:_TITLE],
        f"Its mean score of the last 7 days is {row['recent_score']:.1f} "
        f"({row['recent_runs']} sessions), {abs(row['change']):.1f} points below the 28 days "
        f"before ({row['before_score']:.1f}, {row['before_runs']} sessions).\n"
        "See its worst sessions in the model_comparison_report.",
    )


def of_failed_run(job: str, steps: Sequence[str], run_id: str, why: str, day: date) -> Alert:
    """A run failed; the same steps of a job are told once a day."""
    where = ", ".join(untrusted(each, 60) for each in steps[:LISTED]) or "no step began"
    return Alert(
        "failed_run",
        f"{job} / {', '.join(steps)} / {day}",
        f"a run of {untrusted(job, 80)} failed",
        f"Where: {where} (run {run_id})\n{untrusted(why)}\n"
        "Open the run in Dagster: its log says what to do. It is not told again today.",
    )


def of_open_books(day: date, why: str) -> Alert:
    """The books of a date do not balance, or could not be made."""
    return Alert(
        OPEN_BOOKS,
        str(day),
        f"the books of {day} could not be closed",
        f"{untrusted(why)}\nSee what does not add up: evaluation-pipelines books {day}",
    )


def of_stale_source(source: str, newest: datetime, limit: timedelta) -> Alert:
    """An agent program has sent nothing for too long."""
    hours = limit.total_seconds() / 3600
    return Alert(
        STALE,
        source,
        f"no telemetry of {untrusted(source, 80)} for more than {hours:g} hours",
        f"Its newest event is of {newest:%Y-%m-%d %H:%M} UTC.\nIs the collector up, does it write "
        "into the landing folder? evaluation-pipelines status shows how far each file is read.",
    )


def _name(value: object) -> str:
    return "unknown" if value is None else untrusted(value, 60)
