"""Anchors of judge changes in the ledger."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.judge_changes.domain.drawing import Anchor, Drawing, FrameSession
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_ANCHORS, JUDGE_BRIDGES
from evaluation_pipelines.times import to_us

_BRIDGE, _ANCHOR = JUDGE_BRIDGES.c, JUDGE_ANCHORS.c
_SESSION = tuple(FrameSession.__slots__)
_DRAWN = ("stratum_sessions", "stratum_anchors", "place", "replaced_because")


class AnchorStore:
    """Reader and writer of ``judge_bridges`` and ``judge_anchors``; one transaction a method."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def add(
        self,
        change_id: str,
        frame: tuple[date, date, int],
        anchors: Sequence[Anchor],
        now: datetime,
    ) -> None:
        """Store a drawing, unless the change has one already.

        Args:
            change_id: The change.
            frame: First date, day after the last date, and number of the sessions to draw from.
            anchors: The anchors.
            now: The time.
        """
        since, until, sessions = frame
        drawing = Drawing(change_id, since, until, sessions, to_us(now))
        with writing(self._engine) as connection:
            insert = insert_into(connection, JUDGE_BRIDGES).values(asdict(drawing))
            added = insert.on_conflict_do_nothing().returning(_BRIDGE.change_id)
            if connection.execute(added).one_or_none() is not None:
                _insert(connection, change_id, anchors)

    def add_replacements(self, change_id: str, anchors: Sequence[Anchor]) -> None:
        """Store anchors that take the places of others."""
        with writing(self._engine) as connection:
            _insert(connection, change_id, anchors)

    def replace(self, change_id: str, reasons: Mapping[tuple[str, str], str]) -> None:
        """Note why anchors do not count, by organization and session key."""
        with writing(self._engine) as connection:
            for (organization_id, session_key), reason in reasons.items():
                update = sa.update(JUDGE_ANCHORS).where(
                    _ANCHOR.change_id == change_id,
                    _ANCHOR.organization_id == organization_id,
                    _ANCHOR.session_key == session_key,
                )
                connection.execute(update.values(replaced_because=reason))

    def note_refusal(self, change_id: str, refusal: str | None) -> None:
        """Note why a judge cannot be called, or that it can (``None``)."""
        update = sa.update(JUDGE_BRIDGES).where(_BRIDGE.change_id == change_id)
        with writing(self._engine) as connection:
            connection.execute(update.values(refusal=refusal))

    def drawings(self) -> dict[str, Drawing]:
        """Return all drawings by change id."""
        query = sa.select(*(_BRIDGE[name] for name in Drawing.__slots__))
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings()
            return {row["change_id"]: Drawing(**row) for row in rows}

    def anchors(self, change_id: str) -> list[Anchor]:
        """Return the anchors of a change, those that were replaced too, by stratum and place."""
        columns = [_ANCHOR[name] for name in (*_SESSION, *_DRAWN)]
        order = (_ANCHOR.classification_label, _ANCHOR.agent_model, _ANCHOR.place)
        query = sa.select(*columns).where(_ANCHOR.change_id == change_id).order_by(*order)
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return [
            Anchor(
                FrameSession(**{name: row[name] for name in _SESSION}),
                **{name: row[name] for name in _DRAWN},
            )
            for row in rows
        ]


def _insert(connection: sa.Connection, change_id: str, anchors: Collection[Anchor]) -> None:
    rows = [
        {
            "change_id": change_id,
            **asdict(each.session),
            **{name: getattr(each, name) for name in _DRAWN},
        }
        for each in anchors
    ]
    if rows:
        insert = insert_into(connection, JUDGE_ANCHORS).values(rows)
        connection.execute(insert.on_conflict_do_nothing())
