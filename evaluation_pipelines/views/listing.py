"""Lists: columns, orders, pages with a cursor, and cells as people read them."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, TypeAlias

import msgspec
import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import DASH
from evaluation_pipelines.schemas import (
    AGENTS,
    ALERTS,
    EVALUATION_BOOKS,
    SCORECARDS,
    SESSION_KEY,
    SESSIONS,
    Table,
)
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS

_EPOCH = date(1970, 1, 1)

_Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Place: TypeAlias = tuple[str | _Integer, ...]
"""Values by which the last row of a page is found; days and times as integers."""


class CursorError(UserError, ValueError):
    """A cursor that is none, or whose row has left the list."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list, whose usual order is the newest or the best first.

    Attributes:
        table: Its relation: names, types, meanings, labels and formats of its columns.
        newest: Columns by which the newest rows come first.
        key: Columns that tell rows apart; rows that are equally new are in their order.
        orders: Name of each order that can be asked for -> its column.
        usual_order: The name of the usual order, as a field of a URL says it.
    """

    table: Table
    newest: tuple[str, ...]
    key: tuple[str, ...]
    orders: Mapping[str, str]
    usual_order: str

    def newest_first(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows in the usual order."""
        return rows.sort(
            *self._place,
            descending=[value in self.newest for value in self._place],
            nulls_last=True,
        )

    def in_order(self, rows: pl.DataFrame, order: str) -> pl.DataFrame:
        """Return rows, which are in the usual order, in another one."""
        return rows if order == self.usual_order else in_order(rows, order, self.orders)

    def page(
        self, rows: pl.DataFrame, order: str, after: str | None, limit: int
    ) -> tuple[pl.DataFrame, str | None]:
        """Return a page of rows in an order, and the cursor of the next page if there is one.

        Raises:
            CursorError: ``after`` is no cursor, or its row has left the list.
        """
        start = 0 if not after else self._start(rows, order, self._decoded(after))
        shown = rows.slice(start, limit)
        return shown, self.cursor_after(shown) if rows.height > start + limit else None

    def dated_page(
        self,
        dates: Iterable[date],
        read: Callable[[Sequence[date]], pl.DataFrame],
        after: str | None,
        limit: int,
    ) -> tuple[pl.DataFrame, str | None]:
        """Return a page, the newest first, of rows that are read while the page is not full.

        The newest date is read first, then twice as many at a time: a page is mostly of one date.
        ``session_date`` is the first of ``newest``.

        Raises:
            CursorError: ``after`` is no cursor.
        """
        try:
            last = _EPOCH + timedelta(days=int(self._decoded(after)[0])) if after else date.max
        except OverflowError as error:
            raise CursorError(_NO_CURSOR) from error
        waiting, at_once = sorted((day for day in dates if day <= last), reverse=True), 1
        rows = shown = self.newest_first(read(waiting[:1]))
        while True:
            shown, cursor = self.page(rows, self.usual_order, after, limit)
            waiting, at_once = waiting[at_once:], 2 * at_once
            if cursor is not None or not waiting:
                return shown, cursor
            rows = pl.concat([rows, self.newest_first(read(waiting[:at_once]))])

    def cursor_after(self, rows: pl.DataFrame) -> str:
        """Return the cursor of the page that follows the last of some rows."""
        place = self._places(rows.tail(1)).row(0)
        return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")

    def _start(self, rows: pl.DataFrame, order: str, last: _Place) -> int:
        named, places = dict(zip(self._place, last, strict=True)), self._places(rows)
        is_last = pl.all_horizontal(pl.col(name) == named[name] for name in self.key)
        found = places.select(is_last.arg_true())
        if found.height:
            return int(found.item()) + 1
        if order != self.usual_order:
            raise CursorError("The list has changed. Start again without a cursor.")
        comes_before = pl.lit(value=False)
        for name, value in reversed(named.items()):
            column = pl.col(name)
            first = column > value if name in self.newest else column < value
            comes_before = first | ((column == value) & comes_before)
        return places.filter(comes_before).height

    def _decoded(self, cursor: str) -> _Place:
        padded = cursor + "=" * (-len(cursor) % 4)
        try:
            place = msgspec.json.decode(urlsafe_b64decode(padded.encode()), type=_Place)
        except (msgspec.DecodeError, binascii.Error, ValueError) as error:
            raise CursorError(_NO_CURSOR) from error
        are_texts = [self.table.schema[name] == pl.String for name in self._place]
        if [isinstance(value, str) for value in place] != are_texts:
            raise CursorError(_NO_CURSOR)
        return place

    def _places(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(pl.col(self._place).to_physical())

    @property
    def _place(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.newest, *self.key)))

    def cell(self, row: Mapping[str, Any], name: str) -> str:
        """Return a value for people: formatted, unknown as a dash, a withheld one as such."""
        column, value = self.table.by_name[name], row[name]
        if value is None:
            return REVIEW_DUE if column.blind and row.get(WAITS) else DASH
        return str(value) if column.text is None else column.text(value)

    def heading(self, name: str) -> str:
        """Return the heading of a column."""
        return self.table.by_name[name].heading

    def score(self, row: Mapping[str, Any]) -> str:
        """Return the cell of the effective score; an open session has a provisional one."""
        if row["effective_100"] is None and row["provisional_100"] is not None:
            return f"{self.cell(row, 'provisional_100')} provisional"
        return self.cell(row, "effective_100")


_NO_CURSOR = "Invalid cursor. Start again without one."


def parse_order(given: str | None, columns: Collection[str], usual: str) -> str:
    """Return the order that a field of a URL asks for; ``usual`` if it is empty.

    Args:
        given: The field: a name, with ``-`` before it for descending.
        columns: Names of the orders.
        usual: The order of a list that nothing else is asked of.

    Raises:
        ValueError: There is no such order.
    """
    order = given or usual
    if order.removeprefix("-") not in columns:
        raise ValueError(f"sort must be one of: {', '.join(columns)}, or one with - before it")
    return order


def in_order(rows: pl.DataFrame, order: str, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return rows in an order of :func:`parse_order`; equal ones stay as they are, null is last."""
    column, is_down = columns[order.removeprefix("-")], order.startswith("-")
    return rows.sort(column, descending=is_down, nulls_last=True, maintain_order=True)


SESSION_LISTING = Listing(
    SESSIONS,
    ("started_at",),
    SESSION_KEY,
    {
        "started": "started_at",
        "repository": "repository",
        "agent": "agent_id",
        "model": "model",
        "label": "classification_label",
        "judge": "judge_total",
        "score": "effective_100",
        "composite": "composite",
        "cost": "cost_usd",
        "failed": "tools_failed",
    },
    "-started",
)
"""The list of sessions."""

BOOK_LISTING = Listing(
    EVALUATION_BOOKS,
    ("started_at",),
    SESSION_KEY,
    {
        "started": "started_at",
        "session": "session_key",
        "reason": "reason",
        "label": "classification_label",
        "model": "model",
        "score": "effective_100",
    },
    "-started",
)
"""The sessions in the books of a day."""

CARD_LISTING = Listing(SCORECARDS, ("session_date", "started_at"), ("card_id",), {}, "-started")
"""Current scorecards."""

AGENT_LISTING = Listing(
    AGENTS,
    ("score", "eval_count"),
    AGENTS.key,
    {
        "agent": "agent_id",
        "organization": "organization_id",
        "score": "score",
        "trend": "change",
        "passed": "pass_rate",
        "identity": "overall_score",
    },
    "-score",
)
"""Agents, the best first; those without a score come last."""

ALERT_LISTING = Listing(ALERTS, ("raised_at", "alert_id"), ("alert_id",), {}, "-raised")
"""Alerts."""
