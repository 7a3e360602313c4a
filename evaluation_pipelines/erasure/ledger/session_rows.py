"""Rows of the ledger about forgotten sessions, people and organizations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.erasure.ledger.erasures import add_rows
from evaluation_pipelines.people.domain.identities import Identities
from evaluation_pipelines.storage.ledger.engine import chunks, writing
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    AUDIT_SAMPLES,
    AUDIT_STEPS,
    JUDGE_ANCHORS,
    OVERRIDES,
    SESSION_SCORES,
    TOOL_PRIORITIES,
)
from evaluation_pipelines.storage.ledger.tables.people import (
    ALERTS,
    IDENTITIES,
    RETRACTIONS,
    SERVICE_EVENTS,
    SUBMITTED_EVALUATIONS,
)
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    SESSION_INDEX,
    SOURCE_FILES,
    TOUCHED_DATES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.received import organization_of

ERASED = "erased"
"""What stands in place of a name that is part of a row that stays."""

_Test = Callable[[Sequence[Any]], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which rows of a table are deleted: those whose ``columns`` are of what was forgotten."""

    table: sa.Table
    columns: tuple[str, ...]
    is_gone: Callable[[Forgotten], _Test]


def _session(forgotten: Forgotten) -> _Test:
    return lambda row: (
        row[1] is not None
        and forgotten.has_session(None if row[0] == ANY_ORGANIZATION else row[0], row[1])
    )


def _session_of_key(forgotten: Forgotten) -> _Test:
    return lambda row: (
        row[1] is not None and forgotten.has_session(row[0], row[1].rpartition("#")[0])
    )


def _organization(forgotten: Forgotten) -> _Test:
    return lambda row: forgotten.has_organization(row[0])


def _words(forgotten: Forgotten) -> _Test:
    return lambda row: any(names_forgotten(text or "", forgotten) for text in row)


_SESSION_COLUMNS = ("organization_id", "session_id")
_KEY_COLUMNS = ("organization_id", "session_key")

_RULES = (
    _Rule(SESSION_SCORES, _SESSION_COLUMNS, _session),
    _Rule(ANCHOR_SCORES, _SESSION_COLUMNS, _session),
    _Rule(JUDGE_ANCHORS, _SESSION_COLUMNS, _session),
    _Rule(SESSION_INDEX, _SESSION_COLUMNS, _session),
    _Rule(OVERRIDES, _KEY_COLUMNS, _session_of_key),
    _Rule(AUDIT_SAMPLES, _KEY_COLUMNS, _session_of_key),
    _Rule(AUDIT_STEPS, _KEY_COLUMNS, _session_of_key),
    _Rule(SERVICE_EVENTS, _KEY_COLUMNS, _session_of_key),
    _Rule(SERVICE_EVENTS, ("error_message", "payload"), _words),
    _Rule(ALERTS, ("cause", "title", "text"), _words),
    _Rule(SUBMITTED_EVALUATIONS, ("organization_id",), _organization),
    _Rule(SUBMITTED_EVALUATIONS, ("evaluation_id", "agent_id", "model", "source"), _words),
    _Rule(TOOL_PRIORITIES, ("organization_id",), _organization),
    _Rule(TOOL_PRIORITIES, ("answer", "error_message"), _words),
    _Rule(RETRACTIONS, ("owner",), _words),
)

_TEXTS = (
    *((OVERRIDES, name) for name in ("annotator", "recorded_by", "reason")),
    (AUDIT_STEPS, "annotator"),
    *((AUDIT_SAMPLES, name) for name in ("classification_label", "model")),
    (SESSION_SCORES, "score_triggered_by"),
    (ANCHOR_SCORES, "score_triggered_by"),
)
"""Columns with names of whoever did something, and texts, in rows about sessions of others."""


def erase_ledger_rows(hold: Hold, forgotten: Forgotten, erasure_id: int) -> int:
    """Delete all rows about what was forgotten in one transaction; return their number.

    Texts that name what was forgotten, in rows that stay, are replaced.

    Raises:
        LockLostError: The lock of the erasure is lost; nothing changed.
    """
    with writing(hold.ledger.engine) as connection:
        hold.check(connection)
        numbers = [_apply(connection, rule, forgotten, erasure_id) for rule in _RULES]
        numbers += [
            _rename(connection, table, name, forgotten, erasure_id) for table, name in _TEXTS
        ]
        numbers.append(_erase_people(connection, forgotten, erasure_id))
        _erase_paths(connection, forgotten)
        _erase_errors(connection, forgotten)
        return sum(numbers)


def _apply(connection: sa.Connection, rule: _Rule, forgotten: Forgotten, erasure_id: int) -> int:
    columns = [rule.table.c[name] for name in rule.columns]
    is_gone = rule.is_gone(forgotten)
    gone = [
        tuple(row) for row in connection.execute(sa.select(*columns).distinct()) if is_gone(row)
    ]
    number = sum(_delete(connection, rule.table, columns, row) for row in gone)
    add_rows(connection, erasure_id, rule.table.name, number)
    return number


def _delete(
    connection: sa.Connection,
    table: sa.Table,
    columns: Iterable[sa.Column[Any]],
    row: Sequence[Any],
) -> int:
    is_row = [
        column.is_not_distinct_from(value) for column, value in zip(columns, row, strict=True)
    ]
    return connection.execute(sa.delete(table).where(*is_row)).rowcount


def _rename(
    connection: sa.Connection, table: sa.Table, name: str, forgotten: Forgotten, erasure_id: int
) -> int:
    column = table.c[name]
    names = [
        each
        for each in connection.scalars(sa.select(column).distinct())
        if each is not None and (forgotten.has_id(each) or names_forgotten(each, forgotten))
    ]
    number = sum(
        connection.execute(
            sa.update(table).where(column.in_(chunk)).values({name: ERASED})
        ).rowcount
        for chunk in chunks(names)
    )
    add_rows(connection, erasure_id, table.name, number)
    return number


def _erase_people(connection: sa.Connection, forgotten: Forgotten, erasure_id: int) -> int:
    """Take forgotten people out of all versions of the identities."""
    version, number = IDENTITIES.c, 0
    for row in list(connection.execute(sa.select(version.version, version.definition))):
        identities = Identities.model_validate_json(row.definition)
        kept = without_forgotten(identities, forgotten)
        if kept != identities:
            values = {"definition": kept.model_dump_json(), "content_hash": kept.content_hash}
            connection.execute(
                sa.update(IDENTITIES).where(version.version == row.version).values(values)
            )
            number += 1
    add_rows(connection, erasure_id, IDENTITIES.name, number)
    return number


def without_forgotten(identities: Identities, forgotten: Forgotten) -> Identities:
    """Return the identities without forgotten people."""
    kept = (each for each in identities.people if not forgotten.has_id(each.person_id))
    return Identities(people=tuple(kept))


def _erase_paths(connection: sa.Connection, forgotten: Forgotten) -> None:
    """Take the names of forgotten organizations out of the paths of files that are gone or empty.

    A file is known by its inode: a path that is wrong is corrected when it is read.
    """
    file = SOURCE_FILES.c
    for row in list(connection.execute(sa.select(file.file_id, file.path))):
        if forgotten.has_organization(organization_of(row.path)):
            is_file = sa.update(SOURCE_FILES).where(file.file_id == row.file_id)
            connection.execute(is_file.values(path=ERASED, changed_at_ns=None))


def _erase_errors(connection: sa.Connection, forgotten: Forgotten) -> None:
    """Take errors that name what was forgotten out of the rebuild queue."""
    date = TOUCHED_DATES.c
    for row in list(connection.execute(sa.select(date.session_date, date.last_error))):
        if names_forgotten(row.last_error or "", forgotten):
            is_date = sa.update(TOUCHED_DATES).where(date.session_date == row.session_date)
            connection.execute(is_date.values(last_error=ERASED))
