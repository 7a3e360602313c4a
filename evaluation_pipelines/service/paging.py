"""Pages of a list, each with a cursor that leads to the next one."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

import msgspec
import polars as pl
from fastapi import Depends, Query

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.service.errors import ServiceError

MAX_ROWS = 1000
_MAX_CURSOR_CHARACTERS = 8000


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a page ends: date, start and name of its last row."""

    session_date: date
    started_at: Annotated[datetime, msgspec.Meta(tz=True)]
    name: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How many rows are wanted, and after which."""

    limit: int = 100
    cursor: str | None = None

    @property
    def after(self) -> "Place | None":
        """The place of the cursor; raises ServiceError 400, it is none."""
        return None if self.cursor is None else _decoded(self.cursor)


def page_request(
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="Rows of a page.")] = 100,
    cursor: Annotated[
        str | None,
        Query(max_length=_MAX_CURSOR_CHARACTERS, description="next_cursor of the page before."),
    ] = None,
) -> PageRequest:
    """Return what the query says about the page; a dependency of routes."""
    return PageRequest(limit, cursor)


Paged = Annotated[PageRequest, Depends(page_request)]


def newest_page(
    dates: Iterable[date],
    read: Callable[[Sequence[date]], pl.DataFrame],
    names: Sequence[str],
    page: PageRequest,
) -> tuple[pl.DataFrame, str | None]:
    """Return a page of rows, newest first, and the cursor of the next one.

    Args:
        dates: The dates there are.
        read: Returns the rows of some dates, with ``session_date`` and ``started_at``. The newest
            date is read first, then twice as many at a time, until the page is full: a page is
            mostly of one date, unless there are few rows.
        names: Columns that tell rows apart, all strings.
        page: The page.
    """
    last, found, at_once = page.after, list[pl.DataFrame](), 1
    waiting = sorted((d for d in dates if last is None or d <= last.session_date), reverse=True)
    while waiting and sum(rows.height for rows in found) <= page.limit:
        rows = _ordered(read(waiting[:at_once]), names)
        found.append(rows if last is None else _after(rows, last))
        waiting, at_once = waiting[at_once:], 2 * at_once
    if not found:
        return pl.DataFrame(), None
    every = pl.concat(found)
    shown = every.head(page.limit)
    cursor = _encoded(shown) if every.height > page.limit else None
    return shown.drop(_NAME), cursor


_NAME = "name of the row"


def _ordered(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    name = pl.concat_str(pl.col(names).fill_null(""), separator="\0").alias(_NAME)
    order = ("session_date", "started_at", _NAME)
    return rows.with_columns(name).sort(order, descending=[True, True, False])


def _after(rows: pl.DataFrame, last: Place) -> pl.DataFrame:
    day, start = pl.col("session_date"), pl.col("started_at")
    time = pl.lit(last.started_at).cast(UTC_TIME)
    is_later = (start < time) | ((start == time) & (pl.col(_NAME) > last.name))
    return rows.filter((day < last.session_date) | ((day == last.session_date) & is_later))


def _encoded(rows: pl.DataFrame) -> str:
    place = Place(*rows.select("session_date", "started_at", _NAME).row(-1))
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decoded(cursor: str) -> Place:
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        return msgspec.json.decode(urlsafe_b64decode(padded.encode()), type=Place)
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise ServiceError(
            400, "invalid_cursor", "Invalid cursor. Start again without one."
        ) from error
