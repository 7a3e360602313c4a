"""Rows of ClickHouse about what was forgotten, taken out with the bytes of their files.

A deletion by ClickHouse keeps the old files for minutes, and its own text for longer. So a table is
copied without the rows and exchanged with its copy, and the old one is dropped at once.
"""

import time
from collections.abc import Collection, Mapping
from uuid import UUID

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, REPUTATION_SCORES
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten

_SIGNALS = pl.Schema(
    {
        "id": pl.String(),
        "identity_id": pl.String(),
        "organization_id": pl.String(),
        "reference_id": pl.String(),
        "words": pl.List(pl.String()),
    }
)
_IDS = pl.Schema({"id": pl.String()})
_KEYS = {
    REPUTATION_EVENTS.name: "toString(event_id)",
    "session_signals": "toString(event_id)",
    # An id is unique for its agent alone.
    AGENT_EVALUATIONS.name: r"concat(organization_id, '\0', agent_id, '\0', evaluation_id)",
    REPUTATION_SCORES.name: "toString(identity_id)",
}
_GONE = "erased_ids"
_DROPPED = pl.Schema({"uuid": pl.String(), "name": pl.String()})
_PATIENCE_S = 30.0


def erase_rows(clickhouse: ClickHouse, forgotten: Forgotten) -> Mapping[str, int]:
    """Take all rows about what was forgotten out of the tables; return their numbers.

    It can be interrupted at any time and repeated. Rows that another process writes meanwhile are
    kept.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    for table in _KEYS:
        _drop(clickhouse, _copy_of(table))
    _drop(clickhouse, _GONE)
    delete_dropped_files(clickhouse, [_copy_of(table) for table in _KEYS])
    ids = _forgotten_ids(clickhouse, forgotten)
    return {table: _rewrite(clickhouse, table, gone) for table, gone in ids.items() if gone}


def _forgotten_ids(clickhouse: ClickHouse, forgotten: Forgotten) -> dict[str, set[str]]:
    """Return the ids of the rows to take out of each table."""
    signals = clickhouse.select("select_signal_references", _SIGNALS)
    evaluations = clickhouse.select("select_evaluation_references", _SIGNALS)
    gone = {name: _named(rows, forgotten) for name, rows in (("s", signals), ("e", evaluations))}
    of_organization = _of_organization(signals, forgotten)
    identities = set(signals.filter(of_organization)["identity_id"]) - set(
        signals.filter(~of_organization)["identity_id"]
    )
    evaluated = {each.rpartition("\0")[2] for each in gone["e"]}
    sessions = gone["s"] | {each for each in evaluated if _is_uuid(each)}
    return {
        REPUTATION_EVENTS.name: gone["s"],
        AGENT_EVALUATIONS.name: gone["e"],
        "session_signals": sessions,
        REPUTATION_SCORES.name: identities,
    }


def _named(rows: pl.DataFrame, forgotten: Forgotten) -> set[str]:
    """Return the ids of rows of forgotten sessions, organizations and ids, in any text."""
    texts = rows["words"].explode().drop_nulls().unique()
    named = {each for each in texts if names_forgotten(each, forgotten)}
    return {
        key
        for key, _, organization, reference, words in rows.iter_rows()
        if forgotten.has_organization(organization)
        or forgotten.has_session(organization or None, reference.rpartition("#")[0] or reference)
        or (not organization and names_forgotten(reference, forgotten))
        or not named.isdisjoint(words)
    }


def _of_organization(signals: pl.DataFrame, forgotten: Forgotten) -> pl.Series:
    is_of = [forgotten.has_organization(each) for each in signals["organization_id"]]
    return pl.Series(is_of, dtype=pl.Boolean)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _rewrite(clickhouse: ClickHouse, table: str, gone: set[str]) -> int:
    key, copy = _KEYS[table], _copy_of(table)
    clickhouse.run(f"create table {_GONE} (id String) engine = Memory")
    clickhouse.insert(_GONE, pl.DataFrame({"id": sorted(gone)}, schema=_IDS))
    fill = f"select * from {{}} where {key} not in (select id from {_GONE})"  # noqa: S608
    clickhouse.run(f"create table {copy} as {table}")
    clickhouse.run(f"insert into {copy} {fill.format(table)}")
    clickhouse.run(f"exchange tables {table} and {copy}")
    # What was written after the copy was made; rows that are there already replace themselves.
    clickhouse.run(f"insert into {table} {fill.format(copy)}")
    _drop(clickhouse, copy)
    _drop(clickhouse, _GONE)
    return len(gone)


def _copy_of(table: str) -> str:
    return f"{table}_kept"


def _drop(clickhouse: ClickHouse, table: str) -> None:
    clickhouse.run(f"drop table if exists {table} sync")


def delete_dropped_files(clickhouse: ClickHouse, names: Collection[str]) -> None:
    """Delete the files of dropped tables of some names, which no table has now.

    The embedded ClickHouse would keep them until a process uses it for minutes; a server deletes
    them itself.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    if not clickhouse.is_embedded:
        return
    for uuid, name in _dropped(clickhouse, names):
        try:
            clickhouse.run(f"undrop table {name} uuid '{uuid}'")
        except ClickHouseError as error:  # usually it is being deleted at this moment
            _wait_until_deleted(clickhouse, uuid, name, error)
        else:
            clickhouse.run(f"drop table {name} sync")


def _dropped(clickhouse: ClickHouse, names: Collection[str]) -> list[tuple[str, str]]:
    rows = clickhouse.select("select_dropped_tables", _DROPPED)
    return rows.filter(pl.col("name").is_in(list(names))).rows()


def _wait_until_deleted(
    clickhouse: ClickHouse, uuid: str, name: str, refusal: ClickHouseError
) -> None:
    until = time.monotonic() + _PATIENCE_S
    while (uuid, name) in _dropped(clickhouse, [name]):
        if time.monotonic() > until:
            raise ClickHouseError(
                f"the files of a dropped table {name} are not deleted yet, and it cannot be "
                f"restored for that ({refusal}). Run this again."
            ) from refusal
        time.sleep(0.1)
