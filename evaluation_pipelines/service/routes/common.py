"""Dependencies, documented errors and JSON rows that routes share."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cache
from math import isfinite
from typing import Annotated, Any

import polars as pl
from fastapi import Depends, Path, Query
from fastapi.dependencies.models import Dependant
from fastapi.requests import HTTPConnection
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, create_model

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.overrides import HumanVerdict, RecordedOverride, override
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.service.caller import caller_with, identify, organization_of, waiting_for
from evaluation_pipelines.service.errors import ErrorEnvelope, ServiceError
from evaluation_pipelines.service.installation import Installation, installation_of
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.views.filters import ListQuery

Here = Annotated[Installation, Depends(installation_of)]
Reader = Annotated[Caller, Depends(caller_with(Role.READER))]
Reviewer = Annotated[Caller, Depends(caller_with(Role.REVIEWER))]
Sender = Annotated[Caller, Depends(caller_with(Role.INGEST))]

TOOL_TEXTS = frozenset({"parameters", "correcting_parameters", "error"})
"""Fields of calls that agents and tools wrote."""

CARD_TEXTS = frozenset({"reasoning", "reason"})
"""Fields of scorecards that the judge and people wrote."""

JUDGE_TEXTS = frozenset({"score_analysis", "missing_tools_analysis", "failed_reply"})
"""Fields of judge scores that the judge wrote."""

MAX_ROWS = 1000
"""Rows of a page."""

_NAME_CHARACTERS = 1024
_MAX_CURSOR_CHARACTERS = 8000
_LARGEST_NUMBER = 2**63 - 1

_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def _check(value: datetime) -> datetime:
    # Days are added and subtracted, which fails at the ends of the calendar.
    if not _FIRST <= value <= _LAST:
        raise ValueError("must be between the years 2000 and 2200")
    return value


def _check_date(day: date) -> date:
    _check(datetime.combine(day, time(), UTC))
    return day


RequestTime = Annotated[AwareDatetime, AfterValidator(_check)]
RequestDate = Annotated[date, AfterValidator(_check_date)]


SessionPath = Annotated[
    str,
    Path(
        min_length=1,
        max_length=_NAME_CHARACTERS,
        description="A session key (# is %23), or a session id that has one window.",
    ),
]
Organization = Annotated[
    str | None,
    Query(max_length=_NAME_CHARACTERS, description="For keys of all organizations: only this one."),
]
Text = Annotated[str | None, Query(max_length=_NAME_CHARACTERS)]
Since = Annotated[
    RequestTime | None, Query(alias="from", description="Sessions that started then or later.")
]
Until = Annotated[RequestTime | None, Query(alias="to", description="Sessions before this.")]


def owner(caller: Reader, organization: Organization = None) -> str | None:
    """Return the organization that the query asks for, of those that the caller may see."""
    return organization_of(caller, organization)


Owner = Annotated[str | None, Depends(owner)]


def conditions(
    organization: Owner,
    since: Since = None,
    until: Until = None,
    agent_id: Text = None,
    model: Text = None,
    classification_label: Text = None,
) -> ListQuery:
    """Return which sessions the query asks for, of those that the caller may see."""
    return ListQuery(
        organization=organization,
        agent=agent_id,
        model=model,
        label=classification_label,
        since=since,
        until=until,
    )


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How many rows are wanted, and after which; a dependency of routes."""

    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="Rows of a page.")] = 100
    cursor: Annotated[
        str | None,
        Query(max_length=_MAX_CURSOR_CHARACTERS, description="next_cursor of the page before."),
    ] = None


Paged = Annotated[PageRequest, Depends()]
Chosen = Annotated[ListQuery, Depends(conditions)]


def waiting(connection: HTTPConnection, caller: Reader) -> frozenset[SessionKey]:
    """Return the sessions whose scores are withheld from the caller; a dependency of routes."""
    return waiting_for(connection, caller)


Waiting = Annotated[frozenset[SessionKey], Depends(waiting)]


def known_parameters(connection: HTTPConnection) -> None:
    """A dependency of routes: refuse parameters of the query that the route would ignore.

    Without an accepted key a caller learns nothing of them.
    """
    known = sorted(_query_names(connection.scope["route"].dependant))
    if unknown := sorted(connection.query_params.keys() - set(known)):
        identify(connection)
        listed = f"Known: {', '.join(known)}." if known else "This route has none."
        raise ServiceError(
            400, "unknown_parameter", f"No parameter is named {', '.join(unknown)}.", listed
        )


def _query_names(dependant: Dependant) -> set[str]:
    found = {field.alias for field in dependant.query_params}
    return found.union(*map(_query_names, dependant.dependencies))


def record_override(
    here: Installation, caller: Caller, name: SessionName, verdict: HumanVerdict
) -> RecordedOverride:
    """Record a score by a person, of a session that the caller sees.

    Raises:
        SessionNotFoundError: The caller sees no such session.
        ProfileError: No profile matches the session.
        OverrideError: The score is not on the scale, or a text is empty.
    """
    seen = replace(name, organization=organization_of(caller, name.organization))
    return override(here.stores, find_target(here.stores, seen), verdict, "person", here.clock())


_MEANINGS = {
    404: "there is none, or it belongs to another organization",
    409: "it conflicts with stored data",
    503: "the ledger or the lake cannot be used at the moment",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of errors, in addition to those of every route."""
    every = (*statuses, 503)
    return {status: {"model": ErrorEnvelope, "description": _MEANINGS[status]} for status in every}


def answers(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a 200 and of errors."""
    return {200: {"model": model, "description": "the answer"}, **errors(*statuses)}


def row_number(text: str) -> int | None:
    """Return the number of a row of the ledger; ``None`` if a text can be none."""
    digits = len(f"{_LARGEST_NUMBER}")  # Python reads thousands, but not any number of them
    if not (text.isascii() and text.isdecimal() and len(text) <= digits):
        return None
    return number if (number := int(text)) <= _LARGEST_NUMBER else None


def as_json(content: Any) -> JSONResponse:
    """Return JSON values as they are."""
    return JSONResponse(content)


_PAIR = ["key", "value"]
_TYPES: dict[type[pl.DataType], Any] = {
    pl.String: str,
    pl.Int64: int,
    pl.Int32: int,
    pl.Float64: float,
    pl.Boolean: bool,
    pl.Datetime: datetime,
    pl.Date: date,
}


def json_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON values: :func:`json_value` of each cell."""
    return [json_row(row) for row in rows.iter_rows(named=True)]


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values."""
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: object) -> Any:
    """Return a JSON value: times as RFC 3339 in UTC, pairs of key and value as an object.

    What no JSON number can say, the sum of absurd values, is null.
    """
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if not isfinite(value):
            return None
        case dict():
            return json_row(value)
        case list() | tuple():
            if value and all(isinstance(pair, dict) and [*pair] == _PAIR for pair in value):
                return {pair["key"]: json_value(pair["value"]) for pair in value}
            return [json_value(item) for item in value]
    return value


def without(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a row in which these fields are null, in lists of objects, too."""
    return {name: None if name in names else _without(value, names) for name, value in row.items()}


def _without(value: object, names: Collection[str]) -> Any:
    match value:
        case dict():
            return without(value, names)
        case list():
            return [_without(item, names) for item in value]
    return value


@cache
def row_model(table: Table, hidden: frozenset[str] = frozenset()) -> type[BaseModel]:
    """Return the model of a row of a table for the OpenAPI document, with the columns' meanings."""
    fields = {
        column.name: (_type(column.dtype, column.name), Field(description=column.description))
        for column in table.columns
        if column.name not in hidden
    }
    return create_model(_camel(table.name), __doc__=table.grain, **fields)  # type: ignore[call-overload, no-any-return]


def camel_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the names of its fields in camel case, as JSON values."""
    return {camel(name): json_value(value) for name, value in row.items()}


def camel(name: str) -> str:
    """Return a name in camel case: ``cost_usd`` is ``costUsd``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _type(dtype: pl.DataType, name: str) -> Any:
    match dtype:
        case pl.List(inner=pl.Struct() as pair) if [field.name for field in pair.fields] == _PAIR:
            # Without pairs it is an empty list.
            return dict[str, _type(pair.fields[1].dtype, name)] | list[str] | None  # type: ignore[misc, arg-type]
        case pl.List(inner=inner):
            return list[_type(inner, name)] | None  # type: ignore[misc, arg-type]
        case pl.Struct(fields=parts):
            return _struct(name, parts) | None
    return _TYPES[dtype.base_type()] | None


def _struct(name: str, parts: Iterable[pl.Field]) -> Any:
    fields = {part.name: (_type(part.dtype, part.name), ...) for part in parts}  # type: ignore[arg-type]
    return create_model(_camel(name), **fields)  # type: ignore[call-overload]


def _camel(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))
