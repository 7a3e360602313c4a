"""Lists: columns, orders, pages with a cursor, and cells as people read them."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import DASH
from evaluation_pipelines.schemas import SESSIONS, UTC_TIME, Table
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS


class CursorError(UserError, ValueError):
    """A cursor that is none, or whose row has left the list."""


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """The last row of a page: its key, and when its session started."""

    organization_id: str
    session_key: str
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of sessions, or of things that belong to one each.

    Attributes:
        table: Its relation: names, types, meanings, labels and formats of its columns.
        orders: Name of each order -> its column.
        usual_order: The order of the rows before any is asked for.
    """

    table: Table
    orders: Mapping[str, str]
    usual_order: str

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
        start = 0 if not after else self._start(rows, order, _decoded(after))
        shown = rows.slice(start, limit)
        return shown, cursor_after(shown) if rows.height > start + limit else None

    def _start(self, rows: pl.DataFrame, order: str, last: _Place) -> int:
        owner, key = pl.col("organization_id"), pl.col("session_key")
        is_last = (key == last.session_key) & (owner == last.organization_id)
        places = rows.select(is_last.arg_true())
        if places.height:
            return int(places.item()) + 1
        if not (order.startswith("-") and self.orders[order[1:]] == "started_at"):
            raise CursorError("The list has changed. Start again without a cursor.")
        start, time = pl.col("started_at"), pl.lit(last.started_at).cast(UTC_TIME)
        is_before = (owner < last.organization_id) | (
            (owner == last.organization_id) & (key < last.session_key)
        )
        return rows.filter((start > time) | ((start == time) & is_before)).height

    def cell(self, row: Mapping[str, Any], name: str) -> str:
        """Return a value for people: formatted, unknown as a dash, a withheld one as such."""
        column, value = self._columns[name], row[name]
        if value is None:
            return REVIEW_DUE if column.blind and row.get(WAITS) else DASH
        return str(value) if column.text is None else column.text(value)

    def heading(self, name: str) -> str:
        """Return the heading of a column."""
        return str(self._columns[name].heading)

    def score(self, row: Mapping[str, Any]) -> str:
        """Return the cell of the effective score; an open session has a provisional one."""
        if row["effective_100"] is None and row["provisional_100"] is not None:
            return f"{self.cell(row, 'provisional_100')} provisional"
        return self.cell(row, "effective_100")

    @property
    def _columns(self) -> Mapping[str, Any]:
        return {each.name: each for each in self.table.columns}


def cursor_after(rows: pl.DataFrame) -> str:
    """Return the cursor of the page that follows the last of some rows."""
    place = _Place(*rows.select("organization_id", "session_key", "started_at").row(-1))
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(cursor: str) -> _Place:
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        return msgspec.json.decode(urlsafe_b64decode(padded.encode()), type=_Place)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise CursorError("Invalid cursor. Start again without one.") from error


def parse_order(given: str | None, columns: Mapping[str, str], usual: str) -> str:
    """Return the order that a field of a URL asks for; ``usual`` if it is empty.

    Args:
        given: The field: a name, with ``-`` before it for descending.
        columns: Name of each order -> its column.
        usual: The order of a list that nothing else is asked of.

    Raises:
        ValueError: There is no such order.
    """
    order = given or usual
    if order.removeprefix("-") not in columns:
        raise ValueError(f"sort must be one of: {', '.join(columns)}; or one with - before it")
    return order


def in_order(rows: pl.DataFrame, order: str, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return rows in an order of :func:`parse_order`; equal ones stay as they are, null is last."""
    column, is_down = columns[order.removeprefix("-")], order.startswith("-")
    return rows.sort(column, descending=is_down, nulls_last=True, maintain_order=True)


SESSION_LISTING = Listing(
    SESSIONS,
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
