"""Evaluations that programs send to the service one by one, and rows taken back by a source."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.reputation.domain.agent_rating import (
    WINDOW_SIZE,
    agent_ratings,
    agent_record,
    unknown_agent,
    withheld,
)
from evaluation_pipelines.reputation.domain.signals import (
    GATE_BUDGET_MS,
    Retraction,
    is_plausible,
    session_event_id,
)
from evaluation_pipelines.reputation.store import ReputationStore, is_retracted, revision_at
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, AGENT_WINDOWS, Table
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.people import RETRACTIONS, SUBMITTED_EVALUATIONS
from evaluation_pipelines.storage.stores import Stores

Source = Literal["sdk", "proxy", "rest"]

MAX_NAME_CHARACTERS = 1024
MAX_AHEAD = timedelta(minutes=5)
"""How far a clock may be ahead; what lies further ahead would not count in any window yet."""


class EvaluationError(UserError, ValueError):
    """An evaluation cannot be used; the message says what is wrong with it."""


class EvaluationConflictError(EvaluationError):
    """The agent has another evaluation with this id."""


class AmbiguousAgentError(UserError):
    """Agents of several organizations have this id; ``organizations`` names them."""

    def __init__(self, agent_id: str, organizations: Sequence[str]) -> None:
        self.organizations = tuple(organizations)
        super().__init__(f"{agent_id} is an agent of several organizations")


@dataclass(frozen=True, slots=True)
class SubmittedEvaluation:
    """An evaluation as it was sent; ``None`` for what was not sent.

    Without an id it gets a new one, without a time the current one. Latencies are in milliseconds.
    """

    organization_id: str
    agent_id: str
    passed: bool
    evaluation_id: str | None = None
    evaluated_at: datetime | None = None
    latency_ms: float | None = None
    latency_budget_ms: float | None = None
    model: str | None = None
    source: Source | None = None

    def completed(self, evaluation_id: str, now: datetime) -> dict[str, Any]:
        """Return the row to store: as sent, with defaults for the rest.

        Raises:
            EvaluationError: A name is empty, too long or has a NUL, or the time is implausible.
        """
        for name in ("organization_id", "agent_id", "evaluation_id", "model"):
            _check_name(name, getattr(self, name))
        time = now if self.evaluated_at is None else self.evaluated_at.astimezone(UTC)
        if not is_plausible(time, now) or time > now + MAX_AHEAD:
            raise EvaluationError("evaluated_at lies before 2000 or more than 5 minutes ahead")
        return {
            "evaluation_id": evaluation_id,
            "latency_budget_ms": GATE_BUDGET_MS,
            "latency_ms": None,
            "model": None,
            "source": "rest",
            **self.said(),
            "evaluated_at": time,
        }

    def said(self) -> dict[str, Any]:
        """Return what was sent, without what was left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def is_in(self, row: Mapping[str, Any]) -> bool:
        """Return whether a stored row has all that was sent: it is this evaluation, sent again."""
        return all(row[name] == value for name, value in self.said().items())


def with_submitted(exported: pl.DataFrame, submitted: pl.DataFrame) -> pl.DataFrame:
    """Return evaluations of agents with those from the ledger, AGENT_WINDOWS, the oldest first.

    Args:
        exported: The windows of the agents at the last refresh: AGENT_WINDOWS.
        submitted: Their newest 500 evaluations from the ledger, counted before or not: the same
            columns, ``evaluations_in_all`` is ignored.
    """
    if submitted.is_empty():  # as usual in a list: nothing to join
        return exported
    new = submitted.join(exported, on=AGENT_WINDOWS.key, how="anti")
    # An evaluation that left the window would be counted again: the agent is mature then anyway.
    numbers = pl.concat(
        [
            exported.select(*_AGENT, number="evaluations_in_all").unique(),
            new.group_by(_AGENT).agg(number=pl.len().cast(pl.Int64)),
        ]
    )
    in_all = numbers.group_by(_AGENT).agg(evaluations_in_all=pl.col("number").sum())
    both = pl.concat([exported, submitted.select(AGENT_WINDOWS.schema.names())])
    every = both.drop("evaluations_in_all").unique(AGENT_WINDOWS.key, keep="last")
    counts = every.join(in_all, on=_AGENT, how="left")
    return counts.select(AGENT_WINDOWS.schema.names()).sort(AGENT_WINDOWS.order)


def _check_name(field: str, name: str | None) -> None:
    if name is None:
        return
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS or "\0" in name:
        raise EvaluationError(
            f"{field} must have 1 to {MAX_NAME_CHARACTERS} characters, and no NUL"
        )


_RETRACTED = RETRACTIONS.c


class Retractions:
    """Operations on ``retractions``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine, self._as_of = ledger.engine, ledger.as_of

    def of(self, table: Table) -> set[Retraction]:
        """Return what was taken back of a table."""
        query = sa.select(RETRACTIONS).where(_RETRACTED.table_name == table.name)
        if self._as_of is not None:
            query = query.where(_RETRACTED.retracted_at <= self._as_of)
        with reading(self._engine) as connection:
            return {_retraction(row.id, row.owner) for row in connection.execute(query)}

    def add(self, table: Table, retractions: Iterable[Retraction], now: datetime) -> None:
        """Take signals or evaluations back; those that were already stay so."""
        rows = [
            {
                "table_name": table.name,
                "id": retraction.id,
                "owner": json.dumps(retraction.owner),
                "retracted_at": now,
            }
            for retraction in retractions
        ]
        if rows:
            with writing(self._engine) as connection:
                insert = insert_into(connection, RETRACTIONS)
                connection.execute(insert.on_conflict_do_nothing(), rows)


def _retraction(row_id: str, owner: str) -> Retraction:
    names = json.loads(owner)
    return Retraction(row_id, None if names is None else tuple(names))


_ROW = SUBMITTED_EVALUATIONS.c
_KEY = (_ROW.organization_id, _ROW.agent_id, _ROW.evaluation_id)
_ROWS_AT_A_TIME = 10_000
_AGENT = ("organization_id", "agent_id")

MOST_WAITING = 50
"""Agents whose newest evaluations a list of all agents counts before they are exported."""


class SubmittedEvaluations:
    """Operations on ``submitted_evaluations``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine, self._as_of = ledger.engine, ledger.as_of

    def add(self, sent: SubmittedEvaluation, submitted_by: str, now: datetime) -> dict[str, Any]:
        """Store an evaluation; one that is sent again changes nothing.

        Returns:
            The stored row.

        Raises:
            EvaluationError: It cannot be used.
            EvaluationConflictError: Its id has other content.
        """
        row = sent.completed(sent.evaluation_id or str(uuid4()), now)
        new = {**row, "submitted_by": submitted_by, "submitted_at": now}
        mine = sa.select(SUBMITTED_EVALUATIONS).where(
            *(column == row[column.name] for column in _KEY)
        )
        with writing(self._engine) as connection:
            insert = insert_into(connection, SUBMITTED_EVALUATIONS).values(new)
            connection.execute(insert.on_conflict_do_nothing())
            stored = dict(connection.execute(mine).mappings().one())
        if not sent.is_in(stored):
            raise EvaluationConflictError(
                f"{sent.agent_id} has another evaluation {sent.evaluation_id}: choose another id, "
                "or send the same content again"
            )
        return stored

    def newest(self, organization_id: str, agent_id: str, until: datetime) -> pl.DataFrame:
        """Return the newest 500 evaluations of an agent up to a time: AGENT_WINDOWS."""
        query = (
            sa.select(*(_ROW[name] for name in AGENT_WINDOWS.schema.names() if name in _ROW))
            .where(_ROW.organization_id == organization_id, _ROW.agent_id == agent_id)
            .where(_ROW.evaluated_at <= until)
            .order_by(_ROW.evaluated_at.desc(), _ROW.evaluation_id.desc())
            .limit(WINDOW_SIZE)
        )
        with reading(self._engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return pl.DataFrame(rows, schema=AGENT_WINDOWS.schema)

    def organizations(self, agent_id: str) -> set[str]:
        """Return the organizations that submitted evaluations of an agent."""
        query = sa.select(_ROW.organization_id).where(_ROW.agent_id == agent_id).distinct()
        with reading(self._engine) as connection:
            return set(connection.scalars(query))

    def waiting(self) -> int:
        """Return the number of evaluations that no ClickHouse has yet."""
        query = sa.select(sa.func.count()).where(_ROW.loaded_into.is_(None))
        with reading(self._engine) as connection:
            return int(connection.scalar(query) or 0)

    def agents_waiting(self) -> list[tuple[str, str]]:
        """Return organization and agent of evaluations that no ClickHouse has, up to a limit."""
        query = sa.select(_ROW.organization_id, _ROW.agent_id).distinct()
        query = query.where(_ROW.loaded_into.is_(None)).order_by(*query.selected_columns)
        with reading(self._engine) as connection:
            return [(row[0], row[1]) for row in connection.execute(query.limit(MOST_WAITING))]

    def to_load(self, made_at: datetime) -> Iterator[list[dict[str, Any]]]:
        """Yield the evaluations that the ClickHouse made at a time does not have, in parts."""
        place, wanted = sa.tuple_(*_KEY), self._wanted(made_at)
        last: tuple[str, ...] | None = None
        while True:
            query = sa.select(SUBMITTED_EVALUATIONS).where(*wanted).order_by(*_KEY)
            if last is not None:
                query = query.where(place > sa.tuple_(*last))
            with reading(self._engine) as connection:
                found = connection.execute(query.limit(_ROWS_AT_A_TIME)).mappings()
                rows = [dict(row) for row in found]
            if not rows:
                return
            yield rows
            last = tuple(rows[-1][column.name] for column in _KEY)

    def mark_loaded(self, rows: Sequence[dict[str, Any]], made_at: datetime) -> None:
        """Note that the ClickHouse made at a time has these evaluations."""
        update = sa.update(SUBMITTED_EVALUATIONS).values(loaded_into=made_at)
        mine = update.where(*(column == sa.bindparam(f"the_{column.name}") for column in _KEY))
        keys = [{f"the_{column.name}": row[column.name] for column in _KEY} for row in rows]
        with writing(self._engine) as connection:
            connection.execute(mine, keys)

    def _wanted(self, made_at: datetime) -> list[sa.ColumnElement[bool]]:
        if self._as_of is not None:
            return [_ROW.submitted_at <= self._as_of]
        return [sa.or_(_ROW.loaded_into.is_(None), _ROW.loaded_into != made_at)]


def load_submitted(stores: Stores, store: ReputationStore, now: datetime) -> int:
    """Write the evaluations to ClickHouse that it does not have; return their number.

    After a kill between the two writes they are written again, which changes nothing. With a ledger
    as of a past time, those of until then are written, and nothing is noted.

    Raises:
        ClickHouseError: A write was rejected; the next run completes it.
        LedgerError: The ledger cannot be used.
    """
    submitted, made_at, loaded = SubmittedEvaluations(stores.ledger), store.made_at(), 0
    for rows in submitted.to_load(made_at):
        store.upsert(
            AGENT_EVALUATIONS, _not_retracted(stores.ledger, _frame(rows)), revision_at(now)
        )
        # A retraction that was made meanwhile may not have seen these rows.
        store.retract(AGENT_EVALUATIONS, _retractions_of(stores.ledger, rows), revision_at(now))
        if stores.ledger.as_of is None:
            submitted.mark_loaded(rows, made_at)
        loaded += len(rows)
    return loaded


def reputation_record(
    stores: Stores,
    organization_id: str,
    agent_id: str,
    now: datetime,
    waiting: Collection[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Return the record of an agent, :func:`agent_record`, with all evaluations of the ledger.

    ClickHouse is not asked: its last export and the ledger have all that counts. Sessions that are
    ``waiting`` for a blind review do not count.

    Raises:
        LakeError: The export cannot be read.
        LedgerError: The ledger cannot be used.
    """
    agent = (organization_id, agent_id)
    window = counted(agent_windows(stores, [agent], now), waiting)
    rows = withheld(agent_ratings(window, window.clear(), now)).to_dicts()
    return agent_record(rows[0]) if rows else unknown_agent(*agent, now)


def agent_windows(
    stores: Stores,
    agents: Collection[tuple[str, str]],
    now: datetime,
    submitted_of: Collection[tuple[str, str]] | None = None,
) -> pl.DataFrame:
    """Return the newest evaluations of agents: AGENT_WINDOWS in its order, each once.

    An agent has up to 1,000: 500 of the last export and 500 of the ledger. ``counted`` returns the
    500 that its score is made of.

    Args:
        stores: The stores.
        agents: Organization and agent of each.
        now: Time of the windows.
        submitted_of: Those of the agents that the ledger is asked for, by default all.

    Raises:
        LakeError: The export cannot be read.
        LedgerError: The ledger cannot be used.
    """
    if not agents:
        return AGENT_WINDOWS.no_rows
    names = pl.DataFrame(list(agents), dict.fromkeys(_AGENT, pl.String), orient="row")
    is_named = pl.col("agent_id").is_in([name for _, name in agents])
    exported = stores.lake.select(AGENT_WINDOWS, is_named)
    until = now + MAX_AHEAD  # the clock of a sender may be ahead
    asked = agents if submitted_of is None else submitted_of
    store = SubmittedEvaluations(stores.ledger)
    submitted = pl.concat(
        [AGENT_WINDOWS.no_rows, *(store.newest(*agent, until) for agent in asked)]
    )
    return with_submitted(
        exported.join(names, on=_AGENT, how="semi"), _not_retracted(stores.ledger, submitted)
    )


def counted(windows: pl.DataFrame, waiting: Collection[tuple[str, str]]) -> pl.DataFrame:
    """Return the newest 500 of each agent that do not wait for a blind review, AGENT_WINDOWS.

    Whether one of them passed follows from two scores of its agent.
    """
    waits = pl.col("evaluation_id").is_in([str(session_event_id(*key)) for key in waiting])
    number = waits.sum().over(_AGENT)
    shown = windows.with_columns(pl.col("evaluations_in_all") - number).filter(~waits)
    return shown.group_by(_AGENT, maintain_order=True).tail(WINDOW_SIZE).select(windows.columns)


def agent_organization(stores: Stores, agent_id: str) -> str | None:
    """Return the one organization that has an agent of this id; None if no one has.

    Raises:
        AmbiguousAgentError: Several have one.
        LakeError: The export cannot be read.
        LedgerError: The ledger cannot be used.
    """
    found = agent_organizations(stores, agent_id)
    if len(found) > 1:
        raise AmbiguousAgentError(agent_id, found)
    return found[0] if found else None


def agent_organizations(stores: Stores, agent_id: str) -> list[str]:
    """Return the organizations that have an agent of this id; raises LakeError, LedgerError."""
    exported = stores.lake.select(AGENT_WINDOWS, pl.col("agent_id") == agent_id)
    submitted = SubmittedEvaluations(stores.ledger).organizations(agent_id)
    return sorted({*exported["organization_id"], *submitted})


def _frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    with_reference = [{**row, "reference_id": row["evaluation_id"]} for row in rows]
    return pl.DataFrame(with_reference, schema=AGENT_EVALUATIONS.schema)


def _not_retracted(ledger: Ledger, rows: pl.DataFrame) -> pl.DataFrame:
    retracted = Retractions(ledger).of(AGENT_EVALUATIONS)
    return rows.filter(~is_retracted(AGENT_EVALUATIONS, retracted))


def _retractions_of(ledger: Ledger, rows: Sequence[dict[str, Any]]) -> list[Retraction]:
    keys = {
        Retraction(row["evaluation_id"], (row["organization_id"], row["agent_id"])) for row in rows
    }
    return [*(Retractions(ledger).of(AGENT_EVALUATIONS) & keys)]
