"""Alerts: which were raised, which were told, and which are over."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.alerts.domain.messages import Alert
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.alerts import ALERTS

_ALERT = ALERTS.c


@dataclass(frozen=True, slots=True)
class RaisedAlert:
    """An alert in the ledger."""

    alert_id: int
    alert: Alert
    raised_at: datetime
    told_at: datetime | None
    over_at: datetime | None


class AlertStore:
    """Operations on ``alerts``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def put(self, alert: Alert, now: datetime) -> bool:
        """Raise an alert; False when the same one is open already."""
        row = {
            "kind": alert.kind,
            "cause": alert.cause,
            "title": alert.title,
            "text": alert.text,
            "raised_at": now,
        }
        known = sa.select(_ALERT.alert_id).where(
            _ALERT.kind == alert.kind, _ALERT.cause == alert.cause, _ALERT.over_at.is_(None)
        )
        with reading(self._engine) as connection:
            if connection.scalar(known) is not None:  # nearly always: no lock for nothing
                return False
        with writing(self._engine) as connection:
            insert = insert_into(connection, ALERTS).values(row).on_conflict_do_nothing()
            return connection.scalar(insert.returning(_ALERT.alert_id)) is not None

    def untold(self) -> list[RaisedAlert]:
        """Those that the webhook has not taken yet, oldest first."""
        return self._select(_ALERT.told_at.is_(None))

    def all(self) -> list[RaisedAlert]:
        """Every alert there ever was, oldest first."""
        return self._select()

    def newest(self, kind: str) -> RaisedAlert | None:
        """The one of a kind that was raised last."""
        query = sa.select(sa.func.max(_ALERT.alert_id)).where(_ALERT.kind == kind)
        return next(iter(self._select(_ALERT.alert_id == query.scalar_subquery())), None)

    def mark_told(self, alert_id: int, now: datetime) -> None:
        """The webhook has taken an alert."""
        update = sa.update(ALERTS).where(_ALERT.alert_id == alert_id).values(told_at=now)
        with writing(self._engine) as connection:
            connection.execute(update)

    def end(self, kind: str, lasting: Collection[str], now: datetime) -> None:
        """Alerts of a kind are over, but for those whose cause lasts: the next one is news."""
        still_open = self._select(_ALERT.kind == kind, _ALERT.over_at.is_(None))
        self.end_of(kind, {each.alert.cause for each in still_open}.difference(lasting), now)

    def end_of(self, kind: str, causes: Collection[str], now: datetime) -> None:
        """The alerts of a kind and of some causes are over."""
        is_meant = _ALERT.kind == kind, _ALERT.cause.in_(causes), _ALERT.over_at.is_(None)
        if not self._select(*is_meant):  # nearly always: no lock for nothing
            return
        with writing(self._engine) as connection:
            connection.execute(sa.update(ALERTS).where(*is_meant).values(over_at=now))

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[RaisedAlert]:
        query = sa.select(ALERTS).where(*conditions).order_by(_ALERT.alert_id)
        with reading(self._engine) as connection:
            return [
                RaisedAlert(
                    row["alert_id"],
                    Alert(row["kind"], row["cause"], row["title"], row["text"]),
                    row["raised_at"],
                    row["told_at"],
                    row["over_at"],
                )
                for row in connection.execute(query).mappings()
            ]
