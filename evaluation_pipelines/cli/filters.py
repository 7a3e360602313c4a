"""Options that choose sessions, the same for every command that lists or compares them."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from evaluation_pipelines.cli.dates import DATES_TO_LIST, parse_dates
from evaluation_pipelines.cli.known_names import as_stored
from evaluation_pipelines.cli.output import one_line
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of

Result = TypeVar("Result")

_HELP = "Only sessions "
_OPTIONS: dict[str, Any] = {
    "dates": Annotated[str | None, DATES_TO_LIST],
    "organization": Annotated[
        str | None,
        typer.Option("--organization", metavar="NAME", help=f"{_HELP}of this organization."),
    ],
    "person": Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="ID",
            help=f"{_HELP}of this person, by any id. Needs EVAL_PEOPLE_VIEW=person.",
        ),
    ],
    "team": Annotated[
        str | None, typer.Option("--team", metavar="NAME", help=f"{_HELP}of this team.")
    ],
    "repository": Annotated[
        str | None,
        typer.Option(
            "--repository",
            metavar="NAME",
            help=f"{_HELP}in this repository; its short name is enough.",
        ),
    ],
    "branch": Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help=f"{_HELP}on this branch.")
    ],
    "environment": Annotated[
        str | None,
        typer.Option("--environment", metavar="NAME", help=f"{_HELP}in this environment."),
    ],
    "agent": Annotated[
        str | None, typer.Option("--agent", metavar="ID", help=f"{_HELP}of this agent (agent_id).")
    ],
    "model": Annotated[
        str | None, typer.Option("--model", metavar="NAME", help=f"{_HELP}of this model.")
    ],
    "variant": Annotated[
        str | None,
        typer.Option(
            "--variant",
            metavar="NAME",
            help=f"{_HELP}whose model ran in this way, such as 'effort high'.",
        ),
    ],
    "label": Annotated[
        str | None,
        typer.Option("--label", metavar="NAME", help=f"{_HELP}with this classification label."),
    ],
    "attribute": Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help=f"{_HELP}with this attribute of EVAL_SESSION_ATTRIBUTES; may be repeated.",
        ),
    ],
}


def with_session_filter(command: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options to a command, which gets them as one argument: ``which``.

    An option that the command declares itself, by the same name, stays its own.
    """
    signature = inspect.signature(command)
    kept = [each for name, each in signature.parameters.items() if name != "which"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
        if name not in signature.parameters
    ]
    options = {each.name for each in added}

    @functools.wraps(command)
    def filtered(*arguments: Any, **named: Any) -> Result:
        chosen = {name: named.pop(name) for name in options & named.keys()}
        return command(*arguments, **named, which=_session_filter(**chosen))

    by_keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in kept]
    filtered.__signature__ = signature.replace(parameters=[*by_keyword, *added])  # type: ignore[attr-defined]
    annotations = {each.name: each.annotation for each in (*kept, *added)}
    filtered.__annotations__ = annotations | {"return": signature.return_annotation}
    return filtered


def option_names(which: SessionFilter) -> list[str]:
    """Return the options that were given."""
    given = {"date": which.dates, **which.columns, "attribute": which.attributes or None}
    return [f"--{name}" for name, value in given.items() if value is not None]


def options_text(which: SessionFilter) -> str:
    """Return the options but the dates as they were given: ``--team x, --attribute a=b``."""
    given = [f"--{name} {value}" for name, value in which.columns.items() if value is not None]
    return ", ".join([*given, *(f"--attribute {name}={value}" for name, value in which.attributes)])


def _session_filter(
    attribute: list[str] | None = None, dates: str | None = None, **names: str | None
) -> SessionFilter:
    attributes = tuple(map(_attribute, attribute or ()))
    if (person := names.get("person")) is not None:
        names["person"] = _stored_person(person)
    which = SessionFilter(**names, dates=parse_dates(dates), attributes=attributes)
    _refuse_hidden_people(which)
    return SessionFilter(**as_stored(which.columns), dates=which.dates, attributes=attributes)


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
            f"--person: single people are not shown (EVAL_PEOPLE_VIEW={view}); "
            "EVAL_PEOPLE_VIEW=person shows them, see docs/people.md"
        )
    if which.team is not None and view == "off":
        raise typer.BadParameter(
            "--team: teams are not shown (EVAL_PEOPLE_VIEW=off); "
            "EVAL_PEOPLE_VIEW=team shows them, see docs/people.md"
        )
