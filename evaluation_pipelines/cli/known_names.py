"""Values of filters as sessions have them: other names are replaced, unknown ones refused."""

from collections.abc import Mapping

import polars as pl
import typer

from evaluation_pipelines.cli.output import one_line
from evaluation_pipelines.people.identity_store import IdentityStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.sessions.domain.known_names import hint, people_named, repositories_named
from evaluation_pipelines.sessions.domain.session_filter import FILTER_COLUMNS
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.stores import Stores, read_stores


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
        found = people_named(value, known, IdentityStore(stores.ledger).current())
        shown = set() if stores.settings.pseudonymize else known
    if len(found) == 1:
        return found[0]
    option = f"--{name} {value}"
    if found:
        several = ", ".join(map(repr, found))
        raise typer.BadParameter(one_line(f"{option}: several have this name: {several}"))
    said = hint(value, shown) if shown else "evaluation-pipelines people list shows who is known"
    raise typer.BadParameter(one_line(f"{option}: no session has it; {said}"))
