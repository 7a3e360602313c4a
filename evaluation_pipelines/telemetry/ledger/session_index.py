"""Session index: the date on which each session began, so later events get the same partition."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import date

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import SESSION_INDEX
from evaluation_pipelines.telemetry.domain.organizations import shared_date
from evaluation_pipelines.telemetry.ledger.errors import SessionDateTakenError
from evaluation_pipelines.telemetry.ledger.records import SessionStart

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
        with reading(self._engine) as connection:
            found = _by_session_id(_rows(connection, session_ids))
        return {session_id: sorted(dates.items()) for session_id, dates in found.items()}


def store_sessions(connection: sa.Connection, sessions: Sequence[SessionStart]) -> None:
    """Store the starts of new sessions, within the caller's transaction.

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
    connection.execute(insert.on_conflict_do_nothing(index_elements=key), rows)
    stored = _by_session_id(_rows(connection, {each.session_id for each in sessions}))
    for each in sessions:
        dates = stored[each.session_id]
        found = dates[each.organization_id]
        if found == each.session_date:
            found = shared_date(each.organization_id, each.session_id, dates) or found
        if found != each.session_date:
            raise SessionDateTakenError(
                f"Another reader assigned session {each.session_id} to another date: {found}, not "
                f"{each.session_date}. Look it up again and commit the batch with this date."
            )


def _dates_of(
    connection: sa.Connection, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], date]:
    # The index starts with session_id, which is rarely in two organizations.
    session_ids = {session_id for _, session_id in keys}
    found = _rows(connection, session_ids)
    return {(org, session): day for session, org, day in found if (org, session) in keys}


def _by_session_id(rows: Iterable[tuple[str, str, date]]) -> dict[str, dict[str, date]]:
    found: defaultdict[str, dict[str, date]] = defaultdict(dict)
    for session_id, organization_id, session_date in rows:
        found[session_id][organization_id] = session_date
    return found


def _rows(
    connection: sa.Connection, session_ids: Collection[str]
) -> Iterator[tuple[str, str, date]]:
    columns = sa.select(_SESSION.session_id, _SESSION.organization_id, _SESSION.session_date)
    for chunk in chunks(session_ids):
        for row in connection.execute(columns.where(_SESSION.session_id.in_(chunk))):
            yield row[0], row[1], row[2]
