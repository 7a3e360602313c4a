"""Options that choose sessions and dates, the same for every command."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeVar

import polars as pl
import typer

from evaluation_pipelines.cli.output import one_line, pluralize
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.sessions.domain.find_session import whole_name
from evaluation_pipelines.sessions.domain.session_filter import (
    ALL_SESSIONS,
    FILTER_COLUMNS,
    SessionFilter,
    hint,
    people_named,
    repositories_named,
)
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate
from evaluation_pipelines.storage.stores import Stores, read_stores
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of
from evaluation_pipelines.times import USUAL_DAYS

DateRange = tuple[date, date]
"""First and last date."""


def _dates(help_text: str) -> Any:
    return typer.Option("--date", metavar="A[..B]", help=help_text)


def _time(name: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", metavar="TIME", help=help_text)


DATES_TO_BUILD = _dates(
    "Build this UTC date, or the dates from A to B, instead of those with new telemetry."
)
DATES_TO_REREAD = _dates("With --again: the session dates to look at, one or A..B.")
DATES_OF_FILES = _dates("With --files: only files of these session dates.")
DATES_TO_LIST = _dates("Only this day (UTC), or days A..B, by the session's first ingested event.")
DATES_STARTED = _dates(
    "Only sessions that started on this UTC date, or from A to B: short for --from and --to."
)
FROM_TIME = _time("from", "Only sessions that started at this time or later, UTC.")
TO_TIME = _time("to", "Only sessions that started before this time, UTC.")
AS_OF = _time("as-of", "Report the state at this past time, UTC (see docs/analysts.md).")


def parse_dates(text: str | None) -> DateRange | None:
    """Return the date range ``A`` or ``A..B``; ``None`` for ``None``."""
    if text is None:
        return None
    first, dots, last = text.partition("..")
    try:
        dates = date.fromisoformat(first), date.fromisoformat(last if dots else first)
    except ValueError as error:
        advice = "Use 2026-11-21 or 2026-11-01..2026-11-21"
        raise typer.BadParameter(f"--date {one_line(text)} is not a date. {advice}") from error
    if dates[1] < dates[0]:
        raise typer.BadParameter(f"--date {text}: the range ends before it starts")
    return dates


def parse_time(text: str, option: str) -> datetime:
    """Parse the time of an option, in UTC by default; a date means its midnight."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "Use 2026-11-21 or 2026-11-21T14:30"
        raise typer.BadParameter(f"{option} {one_line(text)} is not a time. {advice}") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_as_of(text: str | None) -> datetime | None:
    """Return the time of ``--as-of``, which must be past; ``None`` for the present."""
    if text is None:
        return None
    time = parse_time(text, "--as-of")
    if time > datetime.now(UTC):
        raise typer.BadParameter(f"--as-of {one_line(text)}: the time is in the future")
    return time


def dates_in(dates: Iterable[date], date_range: DateRange | None) -> list[date]:
    """Return the dates within a range; all of them if the range is ``None``."""
    return [day for day in dates if date_range is None or date_range[0] <= day <= date_range[1]]


def usual_dates(
    dates: Iterable[date], which: SessionFilter = ALL_SESSIONS, then: datetime | None = None
) -> DateRange:
    """Return the dates that a list is of without ``--date``.

    The last 28 up to the newest complete one with sessions; all if times are given instead.
    """
    yesterday = (then or datetime.now(UTC)).date() - timedelta(days=1)
    found = list(dates) or [yesterday]
    if which.since is not None or which.until is not None:
        return min(found), max(found)
    last = max((day for day in found if day <= yesterday), default=max(found))
    return last - timedelta(days=USUAL_DAYS - 1), last


def why_not_built(due: QueuedDate) -> str:
    """Return the error of a failed date, its next attempt, and how to build it now."""
    now = f"evaluation-pipelines build --date {due.session_date}"
    next_time = due.next_attempt_at
    when = "parked" if due.parked else f"due {next_time:%H:%M} UTC" if next_time else "due"
    return (
        f"{due.last_error} ({pluralize(due.attempts, 'attempt')}, {when}, to build it now: {now})"
    )


Result = TypeVar("Result")


def _named(name: str, help_text: str, metavar: str = "NAME") -> Any:
    return Annotated[
        str | None,
        typer.Option(f"--{name}", metavar=metavar, help=f"Only sessions {help_text}."),
    ]


_OPTIONS: dict[str, Any] = {
    "dates": Annotated[str | None, DATES_TO_LIST],
    "since": Annotated[str | None, FROM_TIME],
    "until": Annotated[str | None, TO_TIME],
    "organization": _named("organization", "of this organization"),
    "person": _named(
        "person", "of this person, by any id. Needs EVAL_PEOPLE_VIEW=person", metavar="ID"
    ),
    "team": _named("team", "of this team"),
    "repository": _named("repository", "in this repository (its short name is enough)"),
    "branch": _named("branch", "on this branch"),
    "environment": _named("environment", "in this environment"),
    "agent": _named("agent", "of this agent (agent_id)", metavar="ID"),
    "program": _named("program", "of this agent program, such as claude_code"),
    "masque": _named("masque", "with this masque"),
    "model": _named("model", "of this model"),
    "variant": _named("variant", "with this model variant, such as 'effort high'"),
    "label": _named("label", "with this classification label"),
    "status": _named("status", "with this status: completed, failed or cancelled"),
    "attribute": Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help="Only sessions with this attribute of EVAL_SESSION_ATTRIBUTES (may be repeated).",
        ),
    ],
}


def with_session_filter(command: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options to a command, which gets them as one argument: ``which``.

    An option that the command declares itself, by the same name, stays its own.
    """
    signature = inspect.signature(command)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "which"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
        if name not in signature.parameters
    ]
    options = {parameter.name for parameter in added}

    @functools.wraps(command)
    def filtered(*arguments: Any, **named: Any) -> Result:
        chosen = {name: named.pop(name) for name in options & named.keys()}
        return command(*arguments, **named, which=_session_filter(**chosen))

    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept]
    filtered.__signature__ = signature.replace(parameters=[*by_keyword, *added])  # type: ignore[attr-defined]
    annotations = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
    filtered.__annotations__ = annotations | {"return": signature.return_annotation}
    return filtered


def option_names(which: SessionFilter) -> list[str]:
    """Return the options that were given."""
    given = {
        "date": which.dates,
        "from": which.since,
        "to": which.until,
        **which.columns,
        "attribute": which.attributes or None,
    }
    return [f"--{name}" for name, value in given.items() if value is not None]


def options_text(which: SessionFilter) -> str:
    """Return the options but the dates as they were given: ``--team x, --attribute a=b``."""
    times = {"from": which.since, "to": which.until}
    given = [f"--{name} {time:%Y-%m-%dT%H:%M}" for name, time in times.items() if time is not None]
    given += [f"--{name} {value}" for name, value in which.columns.items() if value is not None]
    return ", ".join([*given, *(f"--attribute {name}={value}" for name, value in which.attributes)])


def _session_filter(
    attribute: list[str] | None = None,
    dates: str | None = None,
    since: str | None = None,
    until: str | None = None,
    **names: str | None,
) -> SessionFilter:
    if (person := names.get("person")) is not None:
        names["person"] = _stored_person(person)
    which = SessionFilter(
        **names,
        dates=parse_dates(dates),
        since=None if since is None else parse_time(since, "--from"),
        until=None if until is None else parse_time(until, "--to"),
        attributes=tuple(map(_attribute, attribute or ())),
    )
    if which.since is not None and which.until is not None and which.since >= which.until:
        raise typer.BadParameter("--from must be before --to")
    _refuse_hidden_people(which)
    stored: dict[str, Any] = as_stored(which.columns)
    return replace(which, **stored)


def parse_arm(text: str, option: str = "--arm") -> SessionFilter:
    """Return the sessions of an arm: ``branch=main``, ``model=aspen-4,attribute:squad=x``.

    Messages name the ``option`` by which it was given.

    Raises:
        BadParameter: A part is not NAME=VALUE, no filter has the name, or no session the value.
    """
    given, attributes = dict[str, str | None](), list[str]()
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if name.startswith("attribute:"):
            attributes.append(part.strip().removeprefix("attribute:"))
        elif name in FILTER_COLUMNS and equals and value and name not in given:
            given[name] = value
        else:
            raise typer.BadParameter(
                one_line(
                    f"{option} {text}: write NAME=VALUE, several with commas, each name once: "
                    f"{', '.join(FILTER_COLUMNS)} or attribute:NAME"
                )
            )
    try:
        return _session_filter(attributes, **given)
    except typer.BadParameter as error:  # for a filter given as an option of its own
        said = error.message.removeprefix("--")
        raise typer.BadParameter(one_line(f"{option} {text}: {said}")) from error


def _stored_person(person: str) -> str:
    """Return a person as sessions have it: by pseudonym, if the settings say so."""
    pseudonyms = pseudonyms_of(load_settings())
    return person if pseudonyms is None else pseudonyms.of(person)


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"--attribute {one_line(text)}: write NAME=VALUE")
    return name, value


def _refuse_hidden_people(which: SessionFilter) -> None:
    """Refuse to single out people that reports must not show."""
    if which.person is None and which.team is None:
        return
    view = load_settings().people_view
    if which.person is not None and view != "person":
        raise typer.BadParameter(
            f"--person: single people are not shown (EVAL_PEOPLE_VIEW={view}). "
            "EVAL_PEOPLE_VIEW=person shows them, see docs/people.md"
        )
    if which.team is not None and view == "off":
        raise typer.BadParameter(
            "--team: teams are not shown (EVAL_PEOPLE_VIEW=off). "
            "EVAL_PEOPLE_VIEW=team shows them, see docs/people.md"
        )


def as_stored(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return values of filters as sessions have them.

    A repository may be given by its short name, a person by any of their ids or their name. Where
    nothing is built yet, every value stays: the command says so.

    Args:
        given: Name of a filter, such as ``model`` -> its value; ``None`` is any.

    Raises:
        BadParameter: No session has a value, or several have that name.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    if not asked:
        return dict(given)
    try:
        with read_stores(load_settings()) as stores:
            return {**given, **_as_stored(stores, asked)}
    except NoLedgerError:
        return dict(given)


def _as_stored(stores: Stores, asked: Mapping[str, str]) -> dict[str, str]:
    columns = [FILTER_COLUMNS[name] for name in asked]
    days = stores.lake.partitions(AGENT_SESSIONS)
    sessions = stores.lake.read(AGENT_SESSIONS, days, columns)
    if sessions.is_empty():
        return dict(asked)
    return {
        name: _one(stores, name, value, _names(sessions[column]))
        for (name, value), column in zip(asked.items(), columns, strict=True)
    }


def _names(values: pl.Series) -> set[str]:
    return set(values.unique().drop_nulls())


def _one(stores: Stores, name: str, value: str, known: set[str]) -> str:
    if value in known:
        return value
    found, shown = list[str](), known
    if name == "repository":
        found = repositories_named(value, known)
    elif name == "person":
        # Loads YAML and all dialects.
        from evaluation_pipelines.people.identity_store import IdentityStore

        found = people_named(value, known, IdentityStore(stores.ledger).current())
        shown = set() if stores.settings.pseudonymize else known
    if len(found) == 1:
        return found[0]
    option = f"--{name} {value}"
    if found:
        several = ", ".join(map(repr, found))
        raise typer.BadParameter(one_line(f"{option}: several have this name: {several}"))
    said = hint(value, shown) if shown else "evaluation-pipelines people list shows who is known"
    raise typer.BadParameter(one_line(f"{option}: no session has it, {said}"))


def named_session(lake: Lake, name: str, organization: str | None = None) -> SessionName:
    """Return the session of the lake that ``name`` is the key or id of, or the start of one.

    Raises:
        AmbiguousSessionError: Several sessions begin so.
        LakeError: A file cannot be read.
    """
    windows = lake.read(
        AGENT_SESSIONS, lake.partitions(AGENT_SESSIONS), [*SESSION_KEY, "session_id"]
    )
    if organization is not None:
        windows = windows.filter(organization_id=organization)
    return SessionName(whole_name(windows, name), organization)
