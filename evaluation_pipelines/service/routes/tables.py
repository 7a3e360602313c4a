"""Tables as Arrow streams, for notebooks and dashboards: a part of the rows at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from itertools import chain
from typing import Annotated, Any

import polars as pl
from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import StreamingResponse

from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    AGENTS,
    EVALUATION_BOOKS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSIONS,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey, withhold
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.service.caller import hidden_from, sees_texts
from evaluation_pipelines.service.errors import not_found
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.kept import Kept, kept_of
from evaluation_pipelines.service.routes.common import (
    CARD_TEXTS,
    JUDGE_TEXTS,
    TOOL_TEXTS,
    Here,
    Owner,
    Reader,
    RequestDate,
    Waiting,
    errors,
)
from evaluation_pipelines.views.agents import agents
from evaluation_pipelines.views.sessions import with_details

ROUTER = APIRouter(prefix="/api/v1/tables", tags=["tables"])

ARROW = "application/vnd.apache.arrow.stream"

_OLDEST = pl.CompatLevel.oldest()
_BATCH_ROWS, _MOST_ROWS = 50_000, 200_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """The rows that a caller may see: their organization, days, and withheld scores."""

    here: Installation
    kept: Kept
    owner: str | None
    waiting: frozenset[SessionKey]
    days: tuple[date, date]

    def groups(self, table: Table) -> Iterator[list[date]]:
        """Yield the asked dates of a table, some at a time: their rows are in memory together."""
        rows = Counter[date]()
        for part in self.here.stores.lake.parts(table):
            if part.session_date is not None and self.days[0] <= part.session_date <= self.days[1]:
                rows[part.session_date] += part.row_count
        group, held = list[date](), 0
        for day in sorted(rows):
            if group and held + rows[day] > _MOST_ROWS:
                yield group
                group, held = [], 0
            group.append(day)
            held += rows[day]
        if group:
            yield group

    def owned(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the organization."""
        return rows if self.owner is None else rows.filter(organization_id=self.owner)


def _asked(
    here: Here,
    kept: Annotated[Kept, Depends(kept_of)],
    owner: Owner,
    waiting: Waiting,
    first: Annotated[RequestDate | None, Query(alias="from", description="First day.")] = None,
    last: Annotated[RequestDate | None, Query(alias="to", description="Last day.")] = None,
) -> _Asked:
    return _Asked(here, kept, owner, waiting, (first or date.min, last or date.max))


_Frames = Iterator[pl.DataFrame]


def _sessions(asked: _Asked) -> _Frames:
    now, kept = asked.here.clock(), asked.kept.sessions
    rows = kept.with_ranks(asked.owned(kept.rows(asked.waiting, now)), now)
    for days in asked.groups(AGENT_SESSIONS):
        of_days = rows.filter(pl.col("session_date").is_in(days))
        yield with_details(asked.here.stores, of_days).select(SESSIONS.schema.names())


def _agents(asked: _Asked) -> _Frames:
    now = asked.here.clock()
    waiting = asked.kept.sessions.rows(asked.waiting, now).filter(WAITS)
    yield agents(asked.here.stores, now, waiting=waiting)


def _scorecards(asked: _Asked) -> _Frames:
    for days in asked.groups(SCORECARDS):
        yield query_cards(asked.here.stores, CardQuery(days=days))


def _stored(table: Table) -> Callable[[_Asked], _Frames]:
    def read(asked: _Asked) -> _Frames:
        lake = asked.here.stores.lake.snapshot()
        for days in asked.groups(table):
            yield lake.read(table, days)

    return read


@dataclass(frozen=True, slots=True)
class _Source:
    table: Table
    read: Callable[[_Asked], _Frames]
    texts: frozenset[str] = frozenset()


_SOURCES: Mapping[str, _Source] = {
    source.table.name: source
    for source in (
        _Source(SESSIONS, _sessions),
        _Source(AGENTS, _agents),
        _Source(SCORECARDS, _scorecards, CARD_TEXTS),
        _Source(JUDGE_SCORES, _stored(JUDGE_SCORES), JUDGE_TEXTS),
        _Source(TOOL_REPORTS, _stored(TOOL_REPORTS), TOOL_TEXTS),
        _Source(EVALUATION_BOOKS, _stored(EVALUATION_BOOKS)),
        _Source(AGENT_EVENTS, _stored(AGENT_EVENTS)),
    )
}

Name = Annotated[str, Path(json_schema_extra={"enum": [*_SOURCES]})]


@ROUTER.get(
    "/{name}.arrow",
    response_class=StreamingResponse,
    responses={200: {"content": {ARROW: {}}, "description": "the answer"}, **errors(404)},
)
def table(
    asked: Annotated[_Asked, Depends(_asked)], caller: Reader, name: Name
) -> StreamingResponse:
    """Stream the rows of a table in Arrow's IPC format. Readers get null for text."""
    source = _SOURCES.get(name)
    if source is None:
        raise not_found(f"The table {name}", f"Tables: {', '.join(_SOURCES)}.")
    hidden = hidden_from(caller, asked.here.settings.people_view)
    texts = frozenset[str]() if sees_texts(caller) else source.texts

    def shown(rows: pl.DataFrame) -> pl.DataFrame:
        rows = asked.owned(rows)
        if "session_key" in rows.columns and source.table is not SESSIONS:
            rows = withhold(rows, asked.waiting)
        columns = rows.schema.items()
        return rows.select(
            _without(column, dtype, texts) for column, dtype in columns if column not in hidden
        )

    stream = _arrow(shown(source.table.no_rows), map(shown, source.read(asked)))
    # An error of the first rows is an answer of its own. After a later one the stream has no end.
    return StreamingResponse(chain([next(stream)], stream), media_type=ARROW)


def _without(name: str, dtype: Any, nulls: frozenset[str]) -> pl.Expr:
    """Return a column with null in these fields: the column itself, or fields of its structs."""
    values = pl.col(name)
    match dtype:
        case _ if name in nulls:
            return pl.lit(None, dtype).alias(name)
        case pl.List(inner=pl.Struct(fields=fields)) if found := _nulls(fields, nulls):
            return values.list.eval(pl.element().struct.with_fields(found))
        case pl.Struct(fields=fields) if found := _nulls(fields, nulls):
            return values.struct.with_fields(found)
    return values


def _nulls(fields: Iterable[pl.Field], names: frozenset[str]) -> list[pl.Expr]:
    found = ((field.name, field.dtype) for field in fields if field.name in names)
    return [pl.lit(None, dtype).alias(name) for name, dtype in found]


def _arrow(empty: pl.DataFrame, frames: _Frames) -> Iterator[bytes]:
    """Yield an Arrow IPC stream, first what comes with the first frame."""
    import pyarrow as pa  # slow to import

    sink = BytesIO()

    def taken() -> bytes:
        content = sink.getvalue()
        sink.seek(0)
        sink.truncate()
        return content

    with pa.ipc.new_stream(sink, empty.to_arrow(compat_level=_OLDEST).schema) as writer:
        for frame in frames:
            for batch in frame.to_arrow(compat_level=_OLDEST).to_batches(_BATCH_ROWS):
                writer.write_batch(batch)
                yield taken()
    yield taken()
