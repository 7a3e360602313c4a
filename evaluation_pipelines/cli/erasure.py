"""Commands ``forget`` and ``expire``: what is deleted on request, and after a time."""

import getpass
from collections.abc import Iterator
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import PARTLY, of_parts, refuse_unused
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
)
from evaluation_pipelines.cli.rows import FORMAT, Record, write_rows
from evaluation_pipelines.erasure.domain.subject import Subject, SubjectKind
from evaluation_pipelines.erasure.expire import Expire, Expiry, is_set
from evaluation_pipelines.erasure.forget import Forget, Forgot
from evaluation_pipelines.erasure.landing_files import LandingTrace
from evaluation_pipelines.erasure.selection import (
    NothingKnownError,
    Selection,
    exempt_stores,
    select,
)
from evaluation_pipelines.formatting import size
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_OFFSETS_SHOWN = 5
_ITEM = ("store", "state", "rows", "offsets", "reason")

_PERSON = typer.Option("--person", metavar="ID", help="A person (person_id) with all ids.")
_USER = typer.Option(
    "--user", metavar="ID", help="An email, user id, account id or host user, as telemetry has it."
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
            help="Also rewrite landing files that no other program has open.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be erased.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Erase a person, session or organization.

    Permanently remove every trace, including user ids, from every store.
    Exits with 4 if a landing file or the identities file still has traces.
    """
    subject = _subject(
        {"person": person, "user": user, "session": session, "organization": organization}
    )
    if dry_run:
        refuse_unused("forget --dry-run", {"--rewrite-landing": rewrite_landing})
        with read_stores(load_settings()) as stores:
            _print_selection(select(stores, subject), form)
        return
    with open_stores(load_settings()) as stores:
        forgot = Forget(stores, getpass.getuser(), rewrite_landing, done=_show_step).run(subject)
        if form is OutputFormat.TABLE:
            _print_result(stores, forgot)
        else:
            write_rows(_items(stores, forgot), form, _ITEM, **_erasure(forgot))
        left = list(_remaining_traces(stores, forgot))
    if left:
        for message in left:
            print_error(one_line(message))
        raise typer.Exit(PARTLY)


def _show_step(what: str) -> None:
    print_error(f"done: {one_line(what)}")


def _subject(given: dict[SubjectKind, str | None]) -> Subject:
    named = [(kind, value) for kind, value in given.items() if value is not None]
    if len(named) != 1:
        raise typer.BadParameter("name one of --person, --user, --session and --organization")
    return Subject(*named[0])


def _print_selection(selection: Selection, form: OutputFormat) -> None:
    if selection.is_empty:
        raise NothingKnownError(selection.subject, selection.people)
    sessions = selection.named_sessions
    if form is not OutputFormat.TABLE:
        write_rows(sessions, form)
        return
    print_line(f"would erase {pluralize(selection.named_sessions.height, 'session')}:")
    for organization, session in sessions.iter_rows():
        print_line(f"  {one_line(session)} of {one_line(organization)}")


def _items(stores: Stores, forgot: Forgot) -> Iterator[Record]:
    """Yield the outcome of each store: erased, rewritten, kept or exempt."""
    for store, rows in forgot.erasure.rows.items():
        yield dict(zip(_ITEM, (store, "erased", rows, None, None), strict=True))
    for trace in forgot.landing:
        state = "rewritten" if trace.kept_because is None else "kept"
        said = (trace.path, state, None, trace.offsets, trace.kept_because)
        yield dict(zip(_ITEM, said, strict=True))
    for name, why in exempt_stores(stores.settings):
        yield dict(zip(_ITEM, (name, "exempt", None, None, why), strict=True))


def _erasure(forgot: Forgot) -> dict[str, object]:
    erasure = forgot.erasure
    return {
        "erasure_id": erasure.erasure_id,
        "requested_by": erasure.requested_by,
        "requested_at": erasure.requested_at,
        "sessions": forgot.selection.named_sessions.height,
    }


def _remaining_traces(stores: Stores, forgot: Forgot) -> Iterator[str]:
    """Yield what still has something of it, and what to do."""
    kept = [trace for trace in forgot.landing if trace.kept_because is not None]
    if kept:
        yield f"{pluralize(len(kept), 'landing file')} still with traces: {kept[0].kept_because}"
    if not forgot.identities_are_clean:
        yield f"{stores.settings.identities_path} still has an entry: remove it by hand"


def _print_result(stores: Stores, forgot: Forgot) -> None:
    erasure = forgot.erasure
    print_line(
        f"erased {pluralize(forgot.selection.named_sessions.height, 'session')}: erasure "
        f"{erasure.erasure_id} by {erasure.requested_by}, {erasure.requested_at:%Y-%m-%d %H:%M} UTC"
    )
    for store, rows in erasure.rows.items():
        print_line(f"  {store}: {pluralize(rows, 'row')} erased")
    for trace in forgot.landing:
        print_line(f"  landing {one_line(trace.path)}: {_state(trace)}")
    print_line("exempt:")
    for name, why in exempt_stores(stores.settings):
        print_line(f"  {name}: {why}")


def _state(trace: LandingTrace) -> str:
    if trace.kept_because is None:
        return "rewritten"
    shown = ", ".join(map(str, trace.offsets[:_OFFSETS_SHOWN]))
    more = len(trace.offsets) - _OFFSETS_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"still has traces at {shown}{rest}: {trace.kept_because}"


_EXPIRED = ("what", "name", "number", "first_date", "last_date")


def expire(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Delete expired text, events and files.

    Also expired sessions and quarantined lines.
    """
    settings = load_settings()
    if not is_set(settings):
        print_remark = print_line if form is OutputFormat.TABLE else print_error
        print_remark("Nothing expires: no setting EVAL_KEEP_..._DAYS is set.")
        result = Expiry()
    else:
        with open_stores(settings) as stores:
            result = Expire(stores, dry_run).run()
    items = list(_expired_items(result))
    if form is not OutputFormat.TABLE:
        more = {"freed_bytes": result.freed_bytes, "oldest": result.oldest, "busy": result.busy}
        write_rows(items, form, _EXPIRED, **more)
    elif is_set(settings):
        _print_expired(result, "would delete" if dry_run else "deleted")
    for message in result.busy:
        print_error(f"not yet: {one_line(message)}")
    raise typer.Exit(of_parts(len(items), len(result.busy)))


def _expired_items(result: Expiry) -> Iterator[Record]:
    """Yield what was deleted, or would be: dates of each kind, rows of each table, files."""
    for kind, dates in result.dates.items():
        said = ("dates", kind, len(dates), dates[0], dates[-1])
        yield dict(zip(_EXPIRED, said, strict=True))
    for table, rows in result.rows.items():
        yield dict(zip(_EXPIRED, ("rows", table, rows, None, None), strict=True))
    for path in result.files:
        yield dict(zip(_EXPIRED, ("landing file", path, 1, None, None), strict=True))


def _print_expired(result: Expiry, verb: str) -> None:
    for kind, dates in result.dates.items():
        print_line(f"{verb} {kind} of {pluralize(len(dates), 'date')}: {dates[0]} to {dates[-1]}")
    for table, rows in result.rows.items():
        print_line(f"  {table}: {pluralize(rows, 'row')}")
    for path in result.files:
        print_line(f"{verb} landing file {one_line(path)}")
    print_line(f"{verb} in total: {size(result.freed_bytes)}")
    for kind, day in result.oldest.items():
        print_line(f"oldest {kind}: {day}")
