"""Options that choose sessions, the same for every command, and sessions by their names."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import polars as pl
import typer

from evaluation_pipelines.cli.dates import (
    DATES_TO_LIST,
    FROM_TIME,
    TO_TIME,
    parse_dates,
    parse_time,
)
from evaluation_pipelines.cli.output import one_line
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.sessions.domain.find_session import whole_name
from evaluation_pipelines.sessions.domain.session_filter import (
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
from evaluation_pipelines.storage.stores import Stores, read_stores
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of

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
    "variant": _named("variant", "whose model ran in this way, such as 'effort high'"),
    "label": _named("label", "with this classification label"),
    "status": _named("status", "that ended so: completed, failed or cancelled"),
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


def parse_arm(text: str) -> SessionFilter:
    """Return the sessions of an arm: ``branch=main``, ``model=aspen-4,attribute:squad=x``.

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
                    f"--arm {text}: write NAME=VALUE, several with commas, each name once: "
                    f"{', '.join(FILTER_COLUMNS)} or attribute:NAME"
                )
            )
    return _session_filter(attributes, **given)


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
    """Return the session of the lake that ``name`` is the key or id of, or the beginning of one.

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
