"""All that only analysts read: aggregates, the report, and the tables as one database."""

import json
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.formatting import one_line
from evaluation_pipelines.judge_changes.anchors import write_judge_changes
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.people.identity_store import hidden_attributes, hidden_columns
from evaluation_pipelines.reporting.analysts_database import (
    AnalyticsError,
    Derived,
    KeyColumn,
    Published,
    Source,
    replace_database,
)
from evaluation_pipelines.reporting.comparison_report import ReportFiles, refresh_comparison
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SCORES,
    AGENT_SESSIONS,
    AGENT_WINDOWS,
    EVALUATION_BOOKS,
    EVENT_TEXTS_LANDED,
    EXTERNAL_SIGNALS,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    MASQUE_LIFT,
    MISSING_TOOLS,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    OUTCOME_PREDICTIONS,
    OVERRIDES,
    QUARANTINE,
    RANKED_PERFORMANCE,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    SESSIONS,
    TEXTS,
    TOOL_REPORT_TEXTS,
    TOOL_REPORTS,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.percentiles import ranked_performance
from evaluation_pipelines.settings.data import column_of
from evaluation_pipelines.storage.compaction import sweep_orphans
from evaluation_pipelines.storage.daily_table import ANY_ERROR
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import ledger_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import (
    PUBLISH,
    Hold,
    LockLostError,
    LockTimeoutError,
    held,
)
from evaluation_pipelines.storage.sql_files import read_sql
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.sessions import sessions, with_details

LEFT_OUT = {
    EVENT_TEXTS_LANDED.name: "prompts, replies, parameters (EVAL_PUBLISH_TEXTS adds event_texts)",
    AGENT_EVENTS_LANDED.name: "agent_events has the same without copies",
    QUARANTINE.name: "unreadable lines: see evaluation-pipelines quarantine list",
    REPUTATION_EVENTS.name: "kept in ClickHouse, made from session_evaluations",
    AGENT_EVALUATIONS.name: "kept in ClickHouse, made from session_evaluations",
    AGENT_WINDOWS.name: "evaluations behind agent_scores, for the service",
}
"""Tables that are not published, and why."""

_TEXT_COLUMNS = ("event_id", "organization_id", "session_id", "session_date", *TEXTS)
_COMPARED = (MODEL_COMPARISON, MODEL_COMPARISON_PAIRS, MODEL_REGRESSIONS)


def publish_analytics(stores: Stores, now: datetime) -> Published:
    """Build the analysts' database from the lake and swap it in.

    Raises:
        AnalyticsError: a Parquet file is damaged or the folder cannot be written; the previous
            database stays.
    """
    link, timeout_s = stores.settings.analytics_path, stores.settings.lock_timeout_seconds
    try:
        # A slower publish must not replace the database of a later one.
        with held(stores.ledger, PUBLISH, timeout_s=timeout_s) as hold:
            return _publish(stores, link, now, hold)
    except (LakeError, LockTimeoutError, LockLostError) as error:
        raise AnalyticsError(
            f"{link} was not published: {error} The previous database is still there."
        ) from error


def _publish(stores: Stores, link: Path, now: datetime, hold: Hold) -> Published:
    read_at, manifest = ledger_time(stores.ledger), Manifest(stores.ledger)
    settings, read = stores.settings, replace(stores, lake=stores.lake.snapshot())
    texts = settings.publish_texts
    sources, derived = _sources(read, now, texts=texts), [_current()]
    if texts:
        sources.append(_files(read.lake, EVENT_TEXTS_LANDED, copied=False))
        derived.append(_event_texts(hidden_attributes(settings.people_view)))
    group_id = None if texts else stores.group_id

    def note(file: Path) -> None:
        # Before the swap: were this process killed after it, the parts would not be kept.
        kept = [path.name for path in file.parent.glob("*.duckdb")]
        # The folder of databases, on whichever machine it is.
        place = f"{socket.gethostname()}:{file.parent.resolve()}/"
        manifest.note_published(file.name, read_at, kept, place=place, hold=hold)

    published = replace_database(link, sources, derived, now, group_id, note)
    with suppress(LockLostError):  # the new database is there; the next publish sweeps
        hold.check()
        sweep_orphans(stores, [source.table for source in sources], None, now)
    return published


def _sources(stores: Stores, now: datetime, *, texts: bool) -> list[Source]:
    lake, settings = stores.lake, stores.settings
    hidden = hidden_columns(settings.people_view)
    more = tuple(
        KeyColumn(column_of(attribute), "session_attributes", attribute)
        for attribute in settings.session_attributes
    )
    maps = ("tool_mix", "session_attributes")
    # The current relation of sessions; nothing is withheld from analysts.
    listed = _without(SESSIONS, hidden | {WAITS})
    rows = sessions(stores, lake.partitions(AGENT_SESSIONS), now=now).sort(listed.order)
    ended = is_terminal(pl.lit(now).cast(UTC_TIME), settings.session_idle_minutes)
    ranked = ranked_performance(lake, lake.partitions(SESSION_PERFORMANCE), ended)
    return [
        # Many and large: a view of the files, which needs no copy.
        _files(lake, _without(AGENT_EVENTS, hidden), copied=False, as_map=maps[1:]),
        _files(lake, _without(AGENT_SESSIONS, hidden), as_map=maps, more=more),
        _files(lake, SESSION_OUTCOMES),
        Source(RANKED_PERFORMANCE, ranked.sort(RANKED_PERFORMANCE.order)),
        _files(lake, JUDGE_SCORES),
        *(_whole(lake, table) for table in (MISSING_TOOLS, JUDGE_CHANGES, JUDGE_ANCHORS)),
        _whole(lake, OUTCOME_PREDICTIONS),
        _files(lake, SCORECARDS, as_map=("criteria_scores",)),
        _files(lake, SESSION_EVALUATIONS),
        _files(lake, EVALUATION_BOOKS),
        Source(OVERRIDES, overrides_with_states(stores)),
        _whole(lake, MASQUE_LIFT),
        *(Source(table, lake.read_whole(table)) for table in _COMPARED),
        *(_whole(lake, table) for table in (REPUTATION_SCORES, AGENT_SCORES, EXTERNAL_SIGNALS)),
        Source(
            listed,
            with_details(stores, rows, listed.schema.names(), now),
            as_map=maps,
            more=more,
        ),
        _files(lake, TOOL_REPORTS, nulls={} if texts else TOOL_REPORT_TEXTS),
    ]


def _files(lake: Lake, table: Table, **how: Any) -> Source:
    return Source(table, lake.files(table), **how)


def _whole(lake: Lake, table: Table) -> Source:
    """Return a table without partitions."""
    return Source(table, lake.files(table, [None]))


def _without(table: Table, hidden: frozenset[str]) -> Table:
    """Return a table without the columns that must not be shown."""
    return replace(
        table, columns=tuple(column for column in table.columns if column.name not in hidden)
    )


def _current() -> Derived:
    """Return the scorecards that count now."""
    return Derived(
        "current_scorecards",
        "scorecards of the present content, one per profile (is_best_match is the current one)",
        read_sql("current_scorecards"),
        SCORECARDS.columns,
    )


def _event_texts(hidden: Collection[str]) -> Derived:
    """Return the texts of the events, each once, without attributes that name people."""
    known = {column.name: column for column in EVENT_TEXTS_LANDED.columns}
    # A merge with null removes a key; names are constants of ours.
    without = json.dumps(dict.fromkeys(sorted(hidden)))
    patched = f"json_merge_patch(attributes::json, '{without}')::varchar"
    shown = f"if(attributes is null, null, {patched}) as attributes"
    return Derived(
        "event_texts",
        "text of agent_events, by organization_id and event_id: one row per event with any",
        f"select * replace ({shown}) from (\n{read_sql('event_texts')}\n)",  # noqa: S608
        tuple(known[name] for name in _TEXT_COLUMNS),
    )


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was published.

    Attributes:
        published: The database.
        reports: The reports that were made.
        failed: What could not be made and is published as before, each with its reason.
    """

    published: Published
    reports: list[ReportFiles] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def refresh_published(stores: Stores, now: datetime) -> Refreshed:
    """Make what a build does not write, and publish the analysts' database.

    Raises:
        AnalyticsError: The database cannot be published; the previous one stays.
    """
    reports, failed = list[ReportFiles](), dict[str, str]()
    made: dict[str, Callable[[], object]] = {
        "masque_lift": lambda: write_masque_lift(stores, now),
        "missing_tools": lambda: write_missing_tools(stores, last_period(now)),
        "judge_changes": lambda: write_judge_changes(stores, now),
        "the comparison of models": lambda: reports.append(refresh_comparison(stores, now)),
    }
    for name, make in made.items():
        try:
            make()
        except ANY_ERROR as error:
            failed[name] = f"{type(error).__name__}: {one_line(str(error))}"
    return Refreshed(publish_analytics(stores, now), reports, failed)
