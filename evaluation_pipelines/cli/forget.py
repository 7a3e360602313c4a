"""Command ``forget``: take every trace of a person, user, session or organization out."""

import getpass
from typing import Annotated

import typer

from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
)
from evaluation_pipelines.erasure.domain.subject import Subject, SubjectKind
from evaluation_pipelines.erasure.errors import NothingKnownError
from evaluation_pipelines.erasure.exempt import exempt_stores
from evaluation_pipelines.erasure.forget import Forget, Forgot
from evaluation_pipelines.erasure.landing_files import LandingTrace
from evaluation_pipelines.erasure.selection import Selection, select
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_OFFSETS_SHOWN = 5

_PERSON = typer.Option("--person", metavar="ID", help="A person (person_id) with all ids.")
_USER = typer.Option(
    "--user", metavar="ID", help="An e-mail, user id, account id or host user, as telemetry has it."
)
_SESSION = typer.Option("--session", metavar="ID", help="One session, as its agent names it.")
_ORGANIZATION = typer.Option("--organization", metavar="NAME", help="An organization.")


def forget(
    person: Annotated[str | None, _PERSON] = None,
    user: Annotated[str | None, _USER] = None,
    session: Annotated[str | None, _SESSION] = None,
    organization: Annotated[str | None, _ORGANIZATION] = None,
    rewrite_landing: Annotated[
        bool,
        typer.Option(
            "--rewrite-landing",
            help="Also write landing files anew that no other program has open.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")
    ] = False,
) -> None:
    """Take every trace of a person, user, session or organization out of every store, for good."""
    subject = _subject(
        {"person": person, "user": user, "session": session, "organization": organization}
    )
    if dry_run:
        with read_stores(load_settings()) as stores:
            _print_selection(select(stores, subject))
        return
    with open_stores(load_settings()) as stores:
        forgot = Forget(stores, getpass.getuser(), rewrite_landing, done=_show_step).run(subject)
        _print_result(stores, forgot)


def _show_step(what: str) -> None:
    print_error(f"done: {one_line(what)}")


def _subject(given: dict[SubjectKind, str | None]) -> Subject:
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if len(named) != 1:
        raise typer.BadParameter("name one of --person, --user, --session and --organization")
    return Subject(*named[0])


def _print_selection(selection: Selection) -> None:
    if selection.is_empty:
        raise NothingKnownError(selection.subject)
    print_line(f"would forget {pluralize(selection.session_count, 'session')}:")
    for organization, session in selection.sessions.drop_nulls().iter_rows():
        print_line(f"  {one_line(session)} of {one_line(organization)}")


def _print_result(stores: Stores, forgot: Forgot) -> None:
    erasure = forgot.erasure
    print_line(
        f"forgot {pluralize(forgot.selection.session_count, 'session')}: erasure "
        f"{erasure.erasure_id} by {erasure.requested_by}, {erasure.requested_at:%Y-%m-%d %H:%M} UTC"
    )
    for store, rows in erasure.rows.items():
        print_line(f"  {store}: {pluralize(rows, 'row')} erased")
    for trace in forgot.landing:
        print_line(f"  landing {one_line(trace.path)}: {_state(trace)}")
    print_line("exempt:")
    for name, why in exempt_stores(stores.settings):
        print_line(f"  {name}: {why}")
    if not forgot.identities_are_clean:
        print_error(f"{stores.settings.identities_path} still has an entry: take it out by hand")


def _state(trace: LandingTrace) -> str:
    if trace.kept_because is None:
        return "written anew"
    shown = ", ".join(map(str, trace.offsets[:_OFFSETS_SHOWN]))
    more = len(trace.offsets) - _OFFSETS_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"still has it at {shown}{rest}: {trace.kept_because}"
