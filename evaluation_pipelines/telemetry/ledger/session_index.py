"""Session index: the date on which each session began, so later events get the same partition."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import SESSION_INDEX
from evaluation_pipelines.telemetry.domain.organizations import shared_date
from evaluation_pipelines.telemetry.domain.subagents import SessionStart


class SessionDateTakenError(LedgerError):
    """Another reader assigned a session of the batch to another date."""


_SESSION = SESSION_INDEX.c
_COLUMNS = tuple(each.name for each in fields(SessionStart))


class SessionIndex:
    """Operations on ``session_index``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def session_dates(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], date]:
        """Return the dates of known (organization_id, session_id) pairs."""
        with reading(self._engine) as connection:
            return _dates_of(connection, set(keys))

    def dates_by_session_id(
        self, session_ids: Collection[str]
    ) -> dict[str, list[tuple[str, date]]]:
        """Return the sorted (organization_id, session_date) pairs of known session ids."""
        found: defaultdict[str, list[tuple[str, date]]] = defaultdict(list)
        for each in self.starts(session_ids):
            found[each.session_id].append((each.organization_id, each.session_date))
        return {session_id: sorted(pairs) for session_id, pairs in found.items()}

    def starts(self, session_ids: Collection[str]) -> list[SessionStart]:
        """Return the starts of known session ids, of all organizations."""
        with reading(self._engine) as connection:
            return list(_starts(connection, session_ids))

    def children(self) -> list[SessionStart]:
        """Return the starts of sub-agents that are filed under other sessions."""
        is_child = _SESSION.parent_session_id.is_not(None)
        with reading(self._engine) as connection:
            return [SessionStart(**row) for row in _select(connection, is_child)]


def store_sessions(connection: sa.Connection, sessions: Sequence[SessionStart]) -> None:
    """Store the starts of new sessions, and late parents, within the caller's transaction.

    Raises:
        SessionDateTakenError: another reader assigned one of them to another date since it was
            looked up. Its events would be in two partitions.
    """
    if not sessions:
        return
    insert = insert_into(connection, SESSION_INDEX)
    key = [_SESSION.session_id, _SESSION.organization_id]
    # Not asdict(), which copies each value and takes as long as storing the row.
    rows = [{name: getattr(each, name) for name in _COLUMNS} for each in sessions]
    rows.sort(key=lambda row: (row["session_id"], row["organization_id"]))
    # A session that had landed before its parent was named gets it.
    parent = insert.excluded.parent_session_id
    upsert = insert.on_conflict_do_update(
        index_elements=key,
        set_={"parent_session_id": parent},
        where=sa.and_(_SESSION.parent_session_id.is_(None), parent.is_not(None)),
    )
    connection.execute(upsert, rows)
    stored: defaultdict[str, dict[str, SessionStart]] = defaultdict(dict)
    for found in _starts(connection, {each.session_id for each in sessions}):
        stored[found.session_id][found.organization_id] = found
    for each in sessions:
        known = stored[each.session_id]
        dates = {organization: start.session_date for organization, start in known.items()}
        own = known[each.organization_id]
        shared = shared_date(each.organization_id, each.session_id, dates) or own.session_date
        is_taken = {own.session_date, shared} != {each.session_date}
        if is_taken or own.parent_session_id != each.parent_session_id:
            raise SessionDateTakenError(
                f"Another reader filed session {each.session_id} differently: "
                f"{own.session_date if own.session_date != each.session_date else shared}, not "
                f"{each.session_date}. Look it up again and commit the batch with that."
            )


def _dates_of(
    connection: sa.Connection, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], date]:
    # The index starts with session_id, which is rarely in two organizations.
    found = _starts(connection, {session_id for _, session_id in keys})
    dates = {(each.organization_id, each.session_id): each.session_date for each in found}
    return {key: day for key, day in dates.items() if key in keys}


def _starts(connection: sa.Connection, session_ids: Collection[str]) -> Iterator[SessionStart]:
    for chunk in chunks(session_ids):
        for row in _select(connection, _SESSION.session_id.in_(chunk)):
            yield SessionStart(**row)


def _select(
    connection: sa.Connection, where: sa.ColumnElement[bool]
) -> Iterable[Mapping[str, Any]]:
    columns = [_SESSION[name] for name in _COLUMNS]
    return (dict(row) for row in connection.execute(sa.select(*columns).where(where)).mappings())
