"""Requests of the gateway: six methods with their own names and field names."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from evaluation_pipelines.scorecards.overrides import MAX_NAME_CHARACTERS, MAX_REASON_CHARACTERS
from evaluation_pipelines.service.routes.common import MAX_ROWS, RequestTime

Name = Annotated[str, Field(min_length=1, max_length=1024)]
RunId = Annotated[Name, Field(description="A session key, or a session id that has one window.")]


class _Params(BaseModel):
    # A mistyped condition must not widen a query.
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, validate_by_name=False, allow_inf_nan=False
    )


class _TimeRange(_Params):
    since: RequestTime | None = Field(None, alias="from")
    until: RequestTime | None = Field(None, alias="to")

    @property
    def span(self) -> tuple[datetime | None, datetime | None]:
        """Start, and end exclusive, of the sessions' start."""
        return self.since, self.until


class QueryParams(_TimeRange):
    """At least one of runId, agentId, from and to."""

    run_id: RunId | None = None
    agent_id: Name | None = None
    classification_label: Name | None = None
    model: Name | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 100


class OverrideParams(_Params):
    """A score by a person, on the scale of the profile."""

    run_id: RunId
    override_score: float
    annotator: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_CHARACTERS)]


class NoParams(_Params):
    """Nothing."""


class SetParams(BaseModel):
    """A judge profile in camel case, or an object with it as ``profile``."""

    model_config = ConfigDict(extra="allow")

    id: str | None = None
    name: str | None = None
    criteria: list[dict[str, Any]] | None = None
    profile: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_needed(self) -> Self:
        given = self.definition
        if missing := [each for each in ("id", "name", "criteria") if given.get(each) is None]:
            raise ValueError(f"a profile needs {', '.join(missing)}")
        return self

    @property
    def definition(self) -> dict[str, Any]:
        """The fields of the profile."""
        return self.profile or self.model_dump(exclude_none=True)


class ComparisonParams(_TimeRange):
    """By default all labels, and the 28 complete days before."""

    classification_label: Name | None = None


class ToolReportParams(_Params):
    """One session."""

    run_id: RunId


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class QueryRequest(_Request):
    """Scorecards with the newest overrides."""

    method: Literal["evaluation.scorecards.query"]
    params: QueryParams


class OverrideRequest(_Request):
    """Record a score by a person."""

    method: Literal["evaluation.scorecards.override"]
    params: OverrideParams


class ListRequest(_Request):
    """All judge profiles."""

    method: Literal["evaluation.judges.list"]
    params: NoParams = NoParams()


class SetRequest(_Request):
    """Register a judge profile."""

    method: Literal["evaluation.judges.set"]
    params: SetParams


class ComparisonRequest(_Request):
    """Compare models by quality and cost."""

    method: Literal["evaluation.model_comparison"]
    params: ComparisonParams = ComparisonParams()


class ToolReportRequest(_Request):
    """Show what the tool calls of a session were worth."""

    method: Literal["evaluation.tool_report"]
    params: ToolReportParams


GatewayRequest = Annotated[
    QueryRequest
    | OverrideRequest
    | ListRequest
    | SetRequest
    | ComparisonRequest
    | ToolReportRequest,
    Field(discriminator="method"),
]
