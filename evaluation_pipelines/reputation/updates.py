"""Update reputation: sessions become signals and evaluations, and those become scores."""

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.reputation.domain.agent_rating import agent_ratings, withheld
from evaluation_pipelines.reputation.domain.signals import (
    agent_external_evaluations,
    agent_session_evaluations,
    identity_id,
    outcome_signals,
    session_signals,
)
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.store import ReputationStore, revision_at
from evaluation_pipelines.reputation.submitted import Retractions, load_submitted
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    AGENT_SCORES,
    AGENT_SESSIONS,
    AGENT_WINDOWS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
    UTC_TIME,
)
from evaluation_pipelines.scorecards.domain.withheld import SessionKey, withhold
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.external import external_evaluations
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import (
    ClickHouseError,
    embedded_dsn,
    embedded_folder,
    open_clickhouse,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import REPUTATION, Hold, held
from evaluation_pipelines.storage.store import LocalStore
from evaluation_pipelines.storage.stores import Stores

TREND_DAYS = 30
_WEEKS_SHOWN = 13


@dataclass(frozen=True, slots=True)
class BridgeResult:
    """Result for the sessions of some dates: with a score, and signals new or changed, withdrawn.

    ``signals`` are the present ones: REPUTATION_EVENTS and ``session_date``.
    """

    scored: int
    written: int
    retired: int
    signals: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, compare=False)


@contextmanager
def open_reputation(settings: Settings, now: datetime) -> Iterator[ReputationStore]:
    """Open the store of reputation; create or migrate it if needed.

    Raises:
        ClickHouseError: it cannot be used.
    """
    with _open(settings) as store:
        store.migrate(now)
        yield store


@contextmanager
def change_reputation(stores: Stores, now: datetime) -> Iterator[ReputationStore]:
    """Open the store of reputation while no other process changes it.

    Raises:
        ClickHouseError: it cannot be used.
        LockTimeoutError: another process changes it for too long.
        LedgerError: the ledger cannot be used.
    """
    timeout_s = stores.settings.lock_timeout_seconds
    with (
        held(stores.ledger, REPUTATION, timeout_s=timeout_s) as hold,
        _open(stores.settings, hold) as store,
    ):
        store.migrate(now)
        yield store


@contextmanager
def read_reputation(settings: Settings) -> Iterator[ReputationStore]:
    """Open the store of reputation for reading; nothing is created.

    Raises:
        ClickHouseError: it cannot be used, or does not exist yet.
    """
    folder = embedded_folder(_dsn(settings))
    if folder is not None and not folder.exists():
        raise ClickHouseError(
            f"{folder} holds no reputation yet. Run evaluation-pipelines reputation update (or "
            "demo) first. If it lies elsewhere, name it by EVAL_DATA_DIR or EVAL_CLICKHOUSE_DSN."
        )
    with _open(settings) as store:
        store.expect_migrated()
        yield store


def clickhouse_exists(settings: Settings) -> bool:
    """Return True if there is a ClickHouse: a server, or the folder of the embedded engine."""
    folder = embedded_folder(_dsn(settings))
    return folder is None or folder.exists()


@contextmanager
def _open(settings: Settings, hold: Hold | None = None) -> Iterator[ReputationStore]:
    with open_clickhouse(_dsn(settings), settings.clickhouse_patience_s) as clickhouse:
        yield ReputationStore(clickhouse, hold)


def _dsn(settings: Settings) -> str:
    if settings.clickhouse_dsn is not None:
        return settings.clickhouse_dsn.get_secret_value()
    return embedded_dsn(settings.data_dir / "clickhouse")


def bridge_sessions(
    stores: Stores,
    store: ReputationStore,
    dates: Collection[date],
    now: datetime,
    waiting: Collection[SessionKey] = (),
) -> BridgeResult:
    """Make the sessions of some dates count, each once and as it is scored now.

    ``waiting`` sessions have no score: the store is for a reader who may review them.

    A session that lost its score, or no longer exists, withdraws its signal and its evaluation.
    So does an outcome. Outcomes are signals with ``EVAL_OUTCOME_SIGNALS`` only.

    Raises:
        ClickHouseError: a write was rejected; the next run completes it.
        LakeError: an input cannot be read.
    """
    if not dates:
        return BridgeResult(0, 0, 0)
    sessions, revision = withhold(_sessions(stores, dates, now), waiting), revision_at(now)
    signals = _signals(stores, sessions, dates)
    ids = signals.select("session_date", "event_id")
    by_day = [
        external_evaluations(stores.lake, [day]).with_columns(session_date=day)
        for day in sorted(dates)
    ]
    external = agent_external_evaluations(pl.concat(by_day), sessions)
    evaluations = pl.concat([agent_session_evaluations(sessions), external])
    dated = pl.concat(by_day).join(external.select("evaluation_id"), on="evaluation_id")
    others = dated.select("session_date", event_id="evaluation_id").cast(ids.schema)
    # First, so that whatever is written after it is found again.
    known = store.remember_sessions(dates, pl.concat([ids, others]))
    known -= _moved(store, dates, known - set(signals["event_id"]))
    store.upsert(AGENT_EVALUATIONS, evaluations, revision)
    store.retire(AGENT_EVALUATIONS, known - set(evaluations["evaluation_id"]), revision)
    written = store.upsert(REPUTATION_EVENTS, signals.drop("session_date"), revision)
    retired = store.retire(REPUTATION_EVENTS, known - set(signals["event_id"]), revision)
    return BridgeResult(sessions["effective_100"].count(), written, retired, signals)


def _signals(stores: Stores, sessions: pl.DataFrame, dates: Collection[date]) -> pl.DataFrame:
    """Return the signals of sessions, and of their outcomes if these are signals, too."""
    signals = session_signals(sessions)
    if not stores.settings.outcome_signals:
        return signals
    outcomes = stores.lake.read(SESSION_OUTCOMES, dates)
    return signals.vstack(outcome_signals(outcomes, sessions, stores.settings.signal_deltas))


def signals_without_session(
    stores: Stores, store: ReputationStore, dates: Collection[date]
) -> list[str]:
    """Return ids of live signals about sessions of these dates without their cause, sorted.

    Raises:
        ClickHouseError: it cannot be used.
        LakeError: an input cannot be read.
    """
    if not dates:
        return []
    signals = _signals(stores, stores.lake.read(SESSION_EVALUATIONS, dates), dates)
    others = set(store.known_sessions(dates)["event_id"]) - set(signals["event_id"])
    left = store.live(REPUTATION_EVENTS, others - _moved(store, dates, others))
    return sorted(set(left["event_id"]))


def export_reputation(stores: Stores, store: ReputationStore) -> pl.DataFrame:
    """Refresh the identities' scores and publish them: REPUTATION_SCORES."""
    store.refresh()
    scores = store.scores().sort(REPUTATION_SCORES.order)
    stores.lake.write(scores, REPUTATION_SCORES, None, store.hold)
    return scores


def with_agents(store: ReputationStore, scores: pl.DataFrame) -> pl.DataFrame:
    """Add ``organization_id, agent_id`` to REPUTATION_SCORES; null where only an id is known."""
    ids = pl.struct("organization_id", "agent_id").map_elements(
        lambda agent: str(identity_id(agent["organization_id"], agent["agent_id"])), pl.String
    )
    # Attributes of other systems can say anything: only the name that has this id is its name.
    names = store.agents().with_columns(identity_id=ids)
    return scores.join(names, on="identity_id", how="left", maintain_order="left")


def export_agent_ratings(stores: Stores, store: ReputationStore, now: datetime) -> pl.DataFrame:
    """Compute the agents' current scores and publish them with their windows: AGENT_SCORES.

    The windows are what the service adds newer evaluations to, without asking ClickHouse.
    """
    evaluations = store.evaluations(now)
    scores = _scored(store, evaluations, now)
    stores.lake.write(evaluations.sort(AGENT_WINDOWS.order), AGENT_WINDOWS, None, store.hold)
    stores.lake.write(scores, AGENT_SCORES, None, store.hold)
    return scores


def scored_agents(store: ReputationStore, now: datetime) -> pl.DataFrame:
    """Return all agents as shown to users: AGENT_SCORES."""
    return _scored(store, store.evaluations(now), now)


def _scored(store: ReputationStore, evaluations: pl.DataFrame, now: datetime) -> pl.DataFrame:
    before = store.evaluations(now - timedelta(days=TREND_DAYS))
    return withheld(agent_ratings(evaluations, before, now))


def weekly_scores(
    store: ReputationStore, identity_id: str, now: datetime
) -> list[dict[str, Any] | None]:
    """Return one identity at the end of each of the last 13 weeks, the oldest first.

    A week without any signal of the 90 days before is ``None``.
    """
    times = [now - timedelta(weeks=weeks) for weeks in reversed(range(_WEEKS_SHOWN))]
    rows = [store.score_as_of(identity_id, time) for time in times]
    return [row if row is not None and row["total_events"] else None for row in rows]


def _moved(store: ReputationStore, dates: Collection[date], ids: Collection[str]) -> set[str]:
    """Return sessions whose signal has another date by now.

    Telemetry that is ingested again in another order can change the date of a session.
    """
    live = store.live(REPUTATION_EVENTS, ids).explode("attributes").unnest("attributes")
    days = [day.isoformat() for day in dates]
    elsewhere = (pl.col("key") == "session_date") & ~pl.col("value").is_in(days)
    return set(live.filter(elsewhere)["event_id"])


def _sessions(stores: Stores, dates: Collection[date], now: datetime) -> pl.DataFrame:
    """Return rows of ``session_evaluations`` with ``mean_api_ms`` and ``is_terminal``."""
    key = ["organization_id", "session_key"]
    more = stores.lake.read(AGENT_SESSIONS, dates, [*key, "mean_api_ms", "explicit_end"])
    sessions = stores.lake.read(SESSION_EVALUATIONS, dates).join(more, on=key, how="left")
    time = pl.lit(now).cast(UTC_TIME)
    return sessions.with_columns(is_terminal(time, stores.settings.session_idle_minutes))


@contextmanager
def reputation_as_of(
    stores: Stores,
    then: datetime,
    progress: Progress | None = None,
    waiting: Collection[SessionKey] = (),
) -> Iterator[ReputationStore]:
    """Open a store of reputation as of ``then``, in which ``waiting`` sessions have no score.

    Raises:
        ClickHouseError: there is no embedded ClickHouse, or it rejects a statement.
        LakeError: an input cannot be read.
        OSError: a file of signals cannot be read.
    """
    past, told = as_of(stores, then), progress or Silent()
    dates = [day for day in past.lake.partitions(SESSION_EVALUATIONS) if day <= then.date()]
    with TemporaryDirectory(prefix="evaluation_pipelines_") as folder:
        aside = {"clickhouse_dsn": None, "data_dir": Path(folder)}
        settings = stores.settings.model_copy(update=aside)
        with open_reputation(settings, then) as store:
            told.begin("sessions as of then", len(dates))
            for day in dates:
                bridge_sessions(past, store, [day], then, waiting)
                told.advance(1)
            load_submitted(past, store, then)
            # What was loaded is noted in the folder, too: the lake says what today's store has.
            with closing(open_ledger(f"sqlite:///{folder}/ledger.db")) as ledger:
                lake = Lake(LocalStore(Path(folder)), Manifest(ledger))
                for table in (REPUTATION_EVENTS, AGENT_EVALUATIONS):
                    known = Retractions(past.ledger).of(table)
                    Retractions(ledger).add(table, known, then)
                load_external_signals(replace(stores, lake=lake, ledger=ledger), store, then)
            yield store
