"""Store of overrides by people and of the audit samples that they are asked to review."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_ROWS
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.judging import (
    AUDIT_SAMPLES,
    AUDIT_STEPS,
    OVERRIDES,
)

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
    at the given probability; unknown for samples of before these were recorded.
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
            ids = [_insert(connection, each, now) for each in new]
            touch(connection, {each.session_date for each in new}, now)
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
        """Take back the newest answer of a reviewer to the audit sample, and open the sample again.

        The answer counts nowhere any longer, also as of times before it was undone.

        Args:
            annotator: The reviewer.
            now: The time.
            override_id: Only this answer; ``None`` for the newest.

        Returns:
            Organization and key of its session, and the score; ``None`` if there is no answer.
        """
        answers = sa.select(_SAMPLE.override_id).where(_SAMPLE.override_id.is_not(None))
        newest = (
            sa.select(OVERRIDES)
            .where(_OVERRIDE.annotator == annotator, _OVERRIDE.override_id.in_(answers))
            .order_by(_OVERRIDE.override_id.desc())
            .limit(1)
        )
        if override_id is not None:
            newest = newest.where(_OVERRIDE.override_id == override_id)
        with writing(self._engine) as connection:
            found = connection.execute(newest).mappings().one_or_none()
            if found is None:
                return None
            is_it = {
                "organization_id": found["organization_id"],
                "session_key": found["session_key"],
            }
            mine = sa.update(OVERRIDES).where(_OVERRIDE.override_id == found["override_id"])
            connection.execute(mine.values(source=UNDONE))
            samples = sa.update(AUDIT_SAMPLES).where(_SAMPLE.override_id == found["override_id"])
            connection.execute(samples.values(override_id=None))
            step = {"annotator": annotator, "step": "undo", "made_at": now}
            connection.execute(sa.insert(AUDIT_STEPS).values(**step, **is_it))
            touch(connection, {found["session_date"]}, now)
        return (*is_it.values(), found["override_score"])

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
        rows = [asdict(each) for each in samples]
        with writing(self._engine) as connection:
            insert = insert_into(connection, AUDIT_SAMPLES)
            key = [_SAMPLE.session_date, _SAMPLE.organization_id, _SAMPLE.session_key]
            before = _count(connection)
            connection.execute(insert.on_conflict_do_nothing(index_elements=key), rows)
            return _count(connection) - before

    def complete(self, samples: Collection[AuditSample]) -> None:
        """Store stratum and probability of samples of before; answers do not change."""
        if not samples:
            return
        names = ("profile_version", "classification_label", "model", "inclusion_probability")
        with writing(self._engine) as connection:
            for each in samples:
                mine = sa.update(AUDIT_SAMPLES).where(
                    _SAMPLE.session_date == each.session_date,
                    _SAMPLE.organization_id == each.organization_id,
                    _SAMPLE.session_key == each.session_key,
                    _SAMPLE.inclusion_probability.is_(None),
                )
                connection.execute(mine.values({name: getattr(each, name) for name in names}))

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
            each if each.override_id in known else replace(each, override_id=None)
            for each in samples
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
