"""The ledger's overrides, audit samples, steps of reviewers, and events about effective scores."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Literal

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas.scorecards import MAX_SHOWN, Announced, Announcement
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_ROWS
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.sessions.find import chosen_of
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent, ServiceEvents
from evaluation_pipelines.storage.ledger.tables.judging import (
    AUDIT_SAMPLES,
    AUDIT_STEPS,
    OVERRIDES,
)
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us

UNDONE = "undone"
"""Source of an answer that its reviewer took back."""

_OVERRIDE, _SAMPLE = OVERRIDES.c, AUDIT_SAMPLES.c


@dataclass(frozen=True, slots=True)
class NewOverride:
    """An override to store; its fields are columns of ``overrides``."""

    organization_id: str
    session_key: str
    session_date: date
    profile_id: str
    profile_version: int
    content_hash: str
    override_score: float
    scale_min: float
    scale_max: float
    automatic_score: float | None
    is_confirmation: bool
    source: str
    annotator: str
    reason: str
    criterion_id: str | None = None
    recorded_by: str | None = None


@dataclass(frozen=True, slots=True)
class AuditSample:
    """A session that people are asked to review.

    ``override_id`` is the answer. Version, label and model are the stratum that it was drawn from,
    at the given probability; unknown for samples older than these columns.
    """

    session_date: date
    organization_id: str
    session_key: str
    profile_id: str
    content_hash: str
    drawn_at: datetime
    override_id: int | None = None
    profile_version: int | None = None
    classification_label: str | None = None
    model: str | None = None
    inclusion_probability: float | None = None

    @property
    def key(self) -> SessionKey:
        """Organization and key of the session."""
        return self.organization_id, self.session_key


class OverrideStore:
    """Operations on ``overrides`` and ``audit_samples``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def add(self, new: Sequence[NewOverride], now: datetime) -> list[int]:
        """Store overrides, all or none, and make their dates due for a build.

        An override with the source ``audit`` answers the open samples of its session.

        Returns:
            The ids of the overrides.
        """
        if not new:
            return []
        with writing(self._engine) as connection:
            ids = [_insert(connection, override, now) for override in new]
            touch(connection, {override.session_date for override in new}, now)
        return ids

    def answer(self, new: NewOverride, now: datetime) -> tuple[int, bool]:
        """Store the answer to the open samples of a session, and make its date due for a build.

        If they were answered meanwhile, it is an override by choice: a sample has one answer.

        Returns:
            The id of the override, and whether it is the answer.
        """
        with writing(self._engine) as connection:
            override_id = _insert(connection, replace(new, source="person"), now)
            is_answer = _answer_samples(connection, new, override_id) > 0
            if is_answer:
                mine = sa.update(OVERRIDES).where(_OVERRIDE.override_id == override_id)
                connection.execute(mine.values(source="audit"))
            touch(connection, {new.session_date}, now)
        return override_id, is_answer

    def undo(
        self, annotator: str, now: datetime, override_id: int | None = None
    ) -> tuple[str, str, float] | None:
        """Take back an override; a sample that it answers is open again.

        It no longer counts anywhere, also as of times before it was undone.

        Args:
            annotator: Who undoes it.
            now: The time.
            override_id: The override; ``None`` for the newest answer of ``annotator`` to a sample.

        Returns:
            Organization and key of its session, and the score; ``None`` if there is none.
        """
        answers = sa.select(_SAMPLE.override_id).where(_SAMPLE.override_id.is_not(None))
        is_it = [_OVERRIDE.override_id == override_id, _OVERRIDE.source != UNDONE]
        if override_id is None:
            is_it = [_OVERRIDE.annotator == annotator, _OVERRIDE.override_id.in_(answers)]
        newest = sa.select(OVERRIDES).where(*is_it).order_by(_OVERRIDE.override_id.desc()).limit(1)
        with writing(self._engine) as connection:
            found = connection.execute(newest).mappings().one_or_none()
            if found is None:
                return None
            session = {name: found[name] for name in ("organization_id", "session_key")}
            mine = sa.update(OVERRIDES).where(_OVERRIDE.override_id == found["override_id"])
            connection.execute(mine.values(source=UNDONE))
            samples = sa.update(AUDIT_SAMPLES).where(_SAMPLE.override_id == found["override_id"])
            connection.execute(samples.values(override_id=None))
            step = {"annotator": annotator, "step": "undo", "made_at": now}
            connection.execute(sa.insert(AUDIT_STEPS).values(**step, **session))
            touch(connection, {found["session_date"]}, now)
        return found["organization_id"], found["session_key"], found["override_score"]

    def explain(self, override_id: int, explained: NewOverride, now: datetime) -> None:
        """Add the reason and the criterion of ``explained`` to a stored override."""
        mine = sa.update(OVERRIDES).where(_OVERRIDE.override_id == override_id)
        with writing(self._engine) as connection:
            connection.execute(
                mine.values(reason=explained.reason, criterion_id=explained.criterion_id)
            )
            touch(connection, {explained.session_date}, now)

    def of_dates(self, dates: Collection[date] | None = None) -> pl.DataFrame:
        """Return OVERRIDE_ROWS of ``dates``, or of all dates."""
        columns = [_OVERRIDE[name] for name in OVERRIDE_ROWS]
        query = sa.select(*columns).where(_OVERRIDE.source != UNDONE)
        query = query.order_by(_OVERRIDE.override_id)
        if dates is not None:
            query = query.where(_OVERRIDE.session_date.in_(sorted(dates)))
        if self._as_of is not None:
            query = query.where(_OVERRIDE.made_at <= self._as_of)
        with reading(self._engine) as connection:
            rows = [tuple(row) for row in connection.execute(query)]
        return pl.DataFrame(rows, schema=OVERRIDE_ROWS, orient="row")

    def add_samples(self, samples: Collection[AuditSample]) -> int:
        """Store audit samples; samples that are already stored do not change.

        Returns:
            The number of new samples.
        """
        if not samples:
            return 0
        rows = [asdict(sample) for sample in samples]
        with writing(self._engine) as connection:
            insert = insert_into(connection, AUDIT_SAMPLES)
            key = [_SAMPLE.session_date, _SAMPLE.organization_id, _SAMPLE.session_key]
            before = _count(connection)
            connection.execute(insert.on_conflict_do_nothing(index_elements=key), rows)
            return _count(connection) - before

    def complete(self, samples: Collection[AuditSample]) -> None:
        """Store stratum and probability of older samples; answers do not change."""
        if not samples:
            return
        names = ("profile_version", "classification_label", "model", "inclusion_probability")
        with writing(self._engine) as connection:
            for sample in samples:
                mine = sa.update(AUDIT_SAMPLES).where(
                    _SAMPLE.session_date == sample.session_date,
                    _SAMPLE.organization_id == sample.organization_id,
                    _SAMPLE.session_key == sample.session_key,
                    _SAMPLE.inclusion_probability.is_(None),
                )
                connection.execute(mine.values({name: getattr(sample, name) for name in names}))

    def samples(self, session: tuple[str, str] | None = None) -> list[AuditSample]:
        """Return the samples of a session (organization and key) or all, the oldest date first."""
        order = (_SAMPLE.session_date, _SAMPLE.organization_id, _SAMPLE.session_key)
        query = sa.select(AUDIT_SAMPLES).order_by(*order)
        if session is not None:
            query = query.where(_SAMPLE.organization_id == session[0])
            query = query.where(_SAMPLE.session_key == session[1])
        if self._as_of is not None:
            query = query.where(_SAMPLE.drawn_at <= self._as_of)
        with reading(self._engine) as connection:
            samples = [AuditSample(**row) for row in connection.execute(query).mappings()]
        if self._as_of is None:
            return samples
        known = set(self.of_dates()["override_id"])
        return [
            sample if sample.override_id in known else replace(sample, override_id=None)
            for sample in samples
        ]


def _insert(connection: sa.Connection, new: NewOverride, now: datetime) -> int:
    insert = sa.insert(OVERRIDES).values(**asdict(new), made_at=now)
    override_id = int(connection.execute(insert.returning(_OVERRIDE.override_id)).scalar_one())
    if new.source == "audit":
        _answer_samples(connection, new, override_id)
    return override_id


def _answer_samples(connection: sa.Connection, new: NewOverride, override_id: int) -> int:
    """Answer the open samples of a session; return their number."""
    answered = sa.update(AUDIT_SAMPLES).where(
        _SAMPLE.organization_id == new.organization_id,
        _SAMPLE.session_key == new.session_key,
        _SAMPLE.override_id.is_(None),
    )
    return connection.execute(answered.values(override_id=override_id)).rowcount


def _count(connection: sa.Connection) -> int:
    return int(connection.scalar(sa.select(sa.func.count()).select_from(AUDIT_SAMPLES)) or 0)


_STEP = AUDIT_STEPS.c


def note_step(
    ledger: Ledger,
    annotator: str,
    step: Literal["begin", "show", "skip", "look", "leave"],
    now: datetime,
    key: tuple[str | None, str | None] = (None, None),
) -> None:
    """Record what a reviewer did.

    ``begin``: began a round, in which nothing is skipped yet. ``show``: is looking at a session.
    ``skip``: left it for later in this round. ``look``: has seen its automatic score without an
    answer. ``leave``: it leaves the sample, because a person asked for its score.
    """
    values = {"annotator": annotator, "step": step, "made_at": now}
    insert = sa.insert(AUDIT_STEPS).values(**values, organization_id=key[0], session_key=key[1])
    with writing(ledger.engine) as connection:
        connection.execute(insert)


def _sessions(ledger: Ledger, *where: sa.ColumnElement[bool]) -> frozenset[SessionKey]:
    query = sa.select(_STEP.organization_id, _STEP.session_key).where(*where)
    with reading(ledger.engine) as connection:
        return frozenset((row[0], row[1]) for row in connection.execute(query))


def sessions_that_left(ledger: Ledger) -> frozenset[SessionKey]:
    """Return the sessions that have left the sample."""
    return _sessions(ledger, _STEP.step == "leave")


def sessions_seen(ledger: Ledger, annotators: Collection[str]) -> frozenset[SessionKey]:
    """Return the sessions whose automatic score reviewers have seen and not answered.

    They took their answer back, or looked at the score.
    """
    return _sessions(ledger, _STEP.annotator.in_(annotators), _STEP.step.in_(("undo", "look")))


def shown_to_others(ledger: Ledger, annotator: str, since: datetime) -> frozenset[SessionKey]:
    """Return the sessions at which other reviewers are looking: shown since, and no step later.

    Nothing is locked: a reviewer who has gone holds nothing up.
    """
    newest = sa.select(sa.func.max(_STEP.position)).group_by(_STEP.annotator)
    is_shown = _STEP.position.in_(newest), _STEP.step == "show", _STEP.made_at >= since
    return _sessions(ledger, *is_shown, _STEP.annotator != annotator)


def newest_round(ledger: Ledger, annotator: str) -> tuple[datetime, frozenset[SessionKey]] | None:
    """Return when the newest round began, and what was skipped in it; ``None`` before the first."""
    mine = sa.select(AUDIT_STEPS).where(_STEP.annotator == annotator).order_by(_STEP.position)
    with reading(ledger.engine) as connection:
        steps = connection.execute(mine).mappings().all()
    begun = [at for at, step in enumerate(steps) if step["step"] == "begin"]
    if not begun:
        return None
    skips = [step for step in steps[begun[-1] :] if step["step"] == "skip"]
    skipped = frozenset((skip["organization_id"], skip["session_key"]) for skip in skips)
    return steps[begun[-1]]["made_at"], skipped


_EVENT = SERVICE_EVENTS.c
_IS_EVALUATION = _EVENT.type.like("evaluation.%")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS_PER_TRANSACTION = 10_000


@dataclass(frozen=True, slots=True)
class EvaluationEvent:
    """A recorded event; ``payload`` is JSON text."""

    position: int
    event_id: str
    kind: str
    session_date: date
    organization_id: str
    session_key: str
    payload: str
    recorded_at: datetime


class EventStore:
    """The evaluation events of ``service_events``."""

    def __init__(self, ledger: Ledger) -> None:
        self._events = ServiceEvents(ledger)

    def record(self, day: date, announcements: Iterable[Announcement], now: datetime) -> Announced:
        """Record the events of a date, many in a transaction; an event that is known is skipped.

        Returns:
            The events that were not recorded before.
        """
        seen = self._events.known_unique_ids(day)
        new = (announcement for announcement in announcements if announcement.event_id not in seen)
        shown: list[Announcement] = []
        counts: Counter[str] = Counter()
        while batch := list(islice(new, _EVENTS_PER_TRANSACTION)):
            # Another run may have recorded them since the query: the second adds nothing.
            self._events.append(_row(announcement, now) for announcement in batch)
            counts.update(announcement.kind for announcement in batch)
            shown += batch[: MAX_SHOWN - len(shown)]
        return Announced(tuple(shown), counts)

    def of_kind(self, kind: str, position: int, first_day: date) -> list[EvaluationEvent]:
        """Return the events of a kind after ``position``, oldest first.

        Only those of sessions with a date of ``first_day`` or later.
        """
        return self._after(position, _EVENT.type == kind, _EVENT.session_date >= first_day)

    def after(self, position: int, limit: int) -> list[EvaluationEvent]:
        """Return the next ``limit`` events after ``position``, oldest first."""
        return self._after(position, _IS_EVALUATION, limit=limit)

    def _after(
        self, position: int, *conditions: sa.ColumnElement[bool], limit: int | None = None
    ) -> list[EvaluationEvent]:
        return list(map(_evaluation_event, self._events.after(position, *conditions, limit=limit)))


def _row(announcement: Announcement, now: datetime) -> dict[str, object]:
    return {
        "type": announcement.kind,
        "timestamp_us": to_us(now),
        "organization_id": announcement.organization_id,
        "session_key": announcement.session_key,
        "session_date": announcement.session_date,
        "unique_id": announcement.event_id,
        "payload": announcement.payload,
    }


def _evaluation_event(event: ServiceEvent) -> EvaluationEvent:
    if (
        event.unique_id is None
        or event.session_date is None
        or event.organization_id is None
        or event.session_key is None
        or event.payload is None
    ):
        raise ValueError(f"event {event.event_id} is no evaluation event")
    return EvaluationEvent(
        position=event.event_id,
        event_id=event.unique_id,
        kind=event.type,
        session_date=event.session_date,
        organization_id=event.organization_id,
        session_key=event.session_key,
        payload=event.payload,
        recorded_at=_EPOCH + timedelta(microseconds=event.timestamp_us),
    )


def events_after(
    stores: Stores, position: int, limit: int, which: SessionFilter
) -> list[EvaluationEvent]:
    """Return the next ``limit`` events of chosen sessions after a position, oldest first.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    store, found = EventStore(stores.ledger), list[EvaluationEvent]()
    while len(found) < limit and (page := store.after(position, limit)):
        found += chosen_of(stores.lake, which, page)
        position = page[-1].position
    return found[:limit]
