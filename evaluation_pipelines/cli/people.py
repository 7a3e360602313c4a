"""Commands ``people``: list people, or ids without a person; import the identities."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.cli.conventions import ListGroup
from evaluation_pipelines.cli.filters import dates_in, option_names, with_session_filter
from evaluation_pipelines.cli.output import (
    OutputFormat,
    csv_text,
    one_line,
    pluralize,
    print_error,
    print_json,
    print_line,
    print_table,
    write_output,
)
from evaluation_pipelines.cli.rows import FORMAT
from evaluation_pipelines.people.domain.identities import SENT, Identifier, Identities, Person
from evaluation_pipelines.people.domain.parse import IdentitiesError
from evaluation_pipelines.people.identity_store import (
    IdentityStore,
    keep_identities,
    read_identities,
    sync_identities,
    unknown_ids,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

app = typer.Typer(cls=ListGroup, help="List people and their ids, or unknown ids.")

_SEEN = (*SENT, "organization_id", "team_id", "repository", "person_id")
_LISTS = {
    "organizations": "organization_sessions",
    "repositories": "repository_sessions",
    "teams": "team_sessions",
}
"""Columns with the values that were seen -> those with the sessions of each."""


@app.command("import")
def import_identities(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Identities in YAML.")],
) -> None:
    """Import an identities file, and queue the dates that it changes.

    The file replaces the previous one: EVAL_IDENTITIES_PATH, which may also be edited by hand.
    """
    settings = load_settings()
    read_identities(file)  # nothing is kept of a file with a fault
    with open_stores(settings) as stores:
        keep_identities(settings.identities_path, file)
        synced = sync_identities(stores, datetime.now(UTC))
    if synced.fault is not None:
        raise IdentitiesError(synced.fault)
    _print_synced(synced.identities, synced.dates)


def _print_synced(identities: Identities, dates: tuple[date, ...]) -> None:
    people = pluralize(len(identities.people), "person", "people")
    ids = pluralize(sum(len(person.ids) for person in identities.people), "id")
    print_line(f"{people} with {ids} registered. {pluralize(len(dates), 'date')} to build again")
    if dates:
        print_line(f"from {dates[0]} to {dates[-1]}: evaluation-pipelines build")


class Listed(StrEnum):
    """What ``people list`` lists."""

    PEOPLE = "people"
    UNKNOWN = "unknown"


@app.command("list")
@with_session_filter
def list_people(
    what: Annotated[
        Listed, typer.Argument(metavar=f"[{'|'.join(Listed)}]", help="What to list.")
    ] = Listed.PEOPLE,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of rows.")] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List registered people with teams and ids, or unknown ids.

    unknown: ids without a person in the chosen sessions, most sessions first.
    """
    if what is Listed.UNKNOWN:
        _list_unknown(which, limit, form)
        return
    if not which.is_empty:
        raise typer.BadParameter(f"{', '.join(option_names(which))}: only for people list unknown")
    settings = load_settings()
    with read_stores(settings) as stores:
        people = IdentityStore(stores.ledger).current().people[:limit]
    if form is OutputFormat.JSON:
        print_json({"items": [_record(person) for person in people]})
    elif form is OutputFormat.CSV:
        rows = [(*_cells(person)[:3], _listed(_ids(person))) for person in people]
        names = ["person_id", "name", "team", "ids"]
        schema = dict.fromkeys(names, pl.String)
        write_output(csv_text(pl.DataFrame(rows, schema=schema, orient="row")))
    elif people:
        columns = ("person", "name", "team", "ids #", "known as")
        print_table("People", columns, map(_cells, people), essential=3)
    else:
        print_line(f"No people are registered: see docs/people.md and {settings.identities_path}.")


def _cells(person: Person) -> tuple[Any, ...]:
    teams = [team.team + _period(team.first, team.last) for team in person.teams]
    return (person.person_id, person.name, _listed(teams), len(person.ids), _listed(_ids(person)))


def _ids(person: Person) -> list[str]:
    return [_shown(identifier) for identifier in person.ids]


def _shown(identifier: Identifier) -> str:
    of = "" if identifier.agent is None else f" of {identifier.agent}"
    period = _period(identifier.first, identifier.last)
    return f"{identifier.kind} {identifier.value}{of}{period}"


def _period(first: date | None, last: date | None) -> str:
    return (f" from {first}" if first else "") + (f" to {last}" if last else "")


def _listed(texts: list[str]) -> str | None:
    return ", ".join(texts) or None


def _record(person: Person) -> dict[str, Any]:
    return {
        "person_id": person.person_id,
        "name": person.name,
        "teams": [
            {"team": team.team, "from": team.first, "to": team.last} for team in person.teams
        ],
        "ids": [
            {
                identifier.kind: identifier.value,
                "agent": identifier.agent,
                "from": identifier.first,
                "to": identifier.last,
            }
            for identifier in person.ids
        ],
    }


def _list_unknown(which: SessionFilter, limit: int | None, form: OutputFormat) -> None:
    """List ids without a person and where they were seen, those with the most sessions first."""
    with read_stores(load_settings()) as stores:
        days = dates_in(stores.lake.partitions(AGENT_SESSIONS), which.dates)
        found = _unknown(stores, days, which)
        due = _is_due(stores)
    shown = found if limit is None else found.head(limit)
    if form is OutputFormat.JSON:
        print_json({"items": shown.to_dicts()})
    elif form is OutputFormat.CSV:
        lists = [name for pair in _LISTS.items() for name in pair]
        joined = [pl.col(name).cast(pl.List(pl.String)).list.join(", ") for name in lists]
        write_output(csv_text(shown.with_columns(joined)))
    elif shown.is_empty():
        print_line("Every session belongs to a person.")
    else:
        columns = (
            *("e-mail", "user id", "account id", "host user", "program", "sessions #"),
            *("first", "last", "organizations", "repositories", "teams"),
        )
        title = "Ids without a person"
        print_table(title, columns, unknown_cells(shown), essential=6)
        if shown.height < found.height:
            print_line(f"{found.height - shown.height:,} more: use --limit")
    if due:
        print_error("Last build shown. Dates are due: run `evaluation-pipelines build`.")


def _unknown(stores: Stores, days: list[date], which: SessionFilter) -> pl.DataFrame:
    names = list(dict.fromkeys(_SEEN))
    sessions = stores.lake.read(AGENT_SESSIONS, days, names, which.condition())
    return unknown_ids(sessions, set(IdentityStore(stores.ledger).current().by_id))


def unknown_cells(found: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    """Yield the cells of rows of ``unknown_ids``."""
    for row in found.iter_rows(named=True):
        yield (
            *(row["user_email"], row["user_id"], row["account_id"], row["host_user"]),
            *(row["source_cli"], row["sessions"], row["first_date"], row["last_date"]),
            *(_seen_in(row, *names) for names in _LISTS.items()),
        )


def _seen_in(row: Mapping[str, Any], values: str, numbers: str) -> str | None:
    """Return what was seen; of what not all sessions have, in how many: ``shop (1 of 10)``."""
    every = row["sessions"]
    said = [
        value if number == every else f"{value} ({number:,} of {every:,})"
        for value, number in zip(row[values], row[numbers], strict=True)
    ]
    return one_line(", ".join(said)) or None


def _is_due(stores: Stores) -> bool:
    return bool(RebuildQueue(stores.ledger).pending(datetime.now(UTC)))
