"""The gateway: six methods with names and fields of their own, in camel case."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Body, Depends
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.comparison.domain.compare import Comparison, for_reviewer
from evaluation_pipelines.judging.rubric_files import check_rubric
from evaluation_pipelines.profiles.domain.profile import criterion_warnings
from evaluation_pipelines.profiles.domain.registry import Registered
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import set_definition, with_next_version
from evaluation_pipelines.schemas import SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.scorecards.domain.withheld import WAITS, withhold
from evaluation_pipelines.scorecards.overrides import (
    MAX_NAME_CHARACTERS,
    MAX_REASON_CHARACTERS,
    HumanVerdict,
)
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.service.caller import (
    check_all_organizations,
    check_role,
    find_window,
    organization_of,
    sees_texts,
)
from evaluation_pipelines.service.kept import Asked, Kept, kept_of
from evaluation_pipelines.service.routes.common import (
    MAX_ROWS,
    TOOL_TEXTS,
    Here,
    Reader,
    RequestTime,
    Waiting,
    answers,
    as_json,
    camel,
    camel_row,
    json_row,
    json_value,
    record_override,
    without,
)
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.find import SessionName, reports_of

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
        """Range of session start times, end excluded."""
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
    """No parameters."""


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
        if missing := [name for name in ("id", "name", "criteria") if given.get(name) is None]:
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
    """Scorecards with the latest overrides."""

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
    """Show how effective a session's tool calls were."""

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


ROUTER = APIRouter(tags=["gateway"])

_LISTS = {
    "wastedCalls": "wasted",
    "repeatedCalls": "repeats",
    "corrections": "corrections",
    "failedCalls": "failures",
    "loops": "loops",
}
_FIGURES = ("total_calls", "lost_calls", "lost_usd", "is_flagged", "basis")
_SAME = (
    *("agent_id", "overall_score", "confidence", "disqualified", "disqualifier_triggered"),
    *("model", "provider", "classification_label", "cost_usd", "total_tokens", "duration_ms"),
)


@dataclass(frozen=True, slots=True)
class _Gateway:
    """The methods, for what a caller may see."""

    here: Here
    caller: Reader
    waiting: Waiting

    def answer(
        self,
        request: QueryRequest | OverrideRequest | ListRequest | SetRequest | ToolReportRequest,
    ) -> dict[str, Any]:
        """Return the result of a method.

        Profiles count for all organizations: the key of one organization cannot set them.
        """
        match request:
            case QueryRequest(params=params):
                return self._scorecards(params)
            case OverrideRequest(params=params):
                check_role(self.caller, Role.REVIEWER)
                return self._override(params)
            case ListRequest():
                registry = ProfileStore(self.here.stores.ledger).registry()
                return {"profiles": [_profile(registered) for registered in registry.newest()]}
            case SetRequest(params=params):
                check_role(self.caller, Role.OPERATOR)
                check_all_organizations(self.caller)
                return self._set_judge(params.definition)
            case ToolReportRequest(params=params):
                return self._tool_report(find_window(self.here.stores, self.caller, params.run_id))

    def _scorecards(self, params: QueryParams) -> dict[str, Any]:
        """Return the current cards of the sessions' best matches, the oldest session first.

        Raises:
            QueryTooWideError: The query names neither a session nor an agent nor a time range.
            SessionNotFoundError: The caller sees no such session.
        """
        stores, texts = self.here.stores, sees_texts(self.caller)
        session, organization, days = params.run_id, organization_of(self.caller), None
        if session is not None:
            window = find_window(stores, self.caller, session)
            session, organization = window["session_key"], window["organization_id"]
            days = [window["session_date"]]
        query = CardQuery(
            session=session,
            organization=organization,
            agent=params.agent_id,
            since=params.since,
            until=params.until,
            label=params.classification_label,
            model=params.model,
            profile="best",
            limit=params.limit,
            days=days,
        )
        cards = withhold(query_cards(stores, query), self.waiting)
        reports = stores.lake.read(TOOL_REPORTS, cards["session_date"].unique().to_list())
        wanted = withhold(reports, self.waiting).join(cards, on=SESSION_KEY, how="semi")
        of_session = wanted.rows_by_key(SESSION_KEY, named=True, unique=True, include_key=True)
        return {
            "scorecards": [
                _card(row, of_session.get(tuple(map(row.get, SESSION_KEY))), texts=texts)
                for row in cards.iter_rows(named=True)
            ]
        }

    def _override(self, params: OverrideParams) -> dict[str, Any]:
        """Record a human score.

        Raises:
            SessionNotFoundError: The caller sees no such session.
            ProfileError: No profile matches the session.
            OverrideError: The score is not on the scale, or a text is empty.
        """
        verdict = HumanVerdict(
            params.override_score, params.annotator, params.reason, recorded_by=self.caller.name
        )
        recorded = record_override(self.here, self.caller, SessionName(params.run_id), verdict)
        new = recorded.new
        is_hidden = (new.organization_id, new.session_key) in self.waiting
        return {
            "runId": new.session_key,
            "overrideId": recorded.override_id,
            "judgeProfileId": new.profile_id,
            "judgeProfileVersion": new.profile_version,
            "overallScore": None if is_hidden else new.automatic_score,
            "humanOverride": {
                "overrideScore": params.override_score if is_hidden else new.override_score,
                "annotator": new.annotator,
                "reason": new.reason,
            },
        }

    def _set_judge(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Register a profile; return it as it is registered now, with warnings about it.

        Raises:
            ProfileError: The definition is no profile, or its rubric does not exist.
            ProfileRefusedError: The version rules refuse it.
        """
        stores = self.here.stores
        known = ProfileStore(stores.ledger).registry()
        check_rubric(with_next_version(known, definition), stores.settings.judge_rubrics_dir)
        stored = set_definition(stores, definition, self.here.clock())
        return {"profile": _profile(stored), "warnings": criterion_warnings(stored.profile)}

    def _tool_report(self, window: SessionRow) -> dict[str, Any]:
        """Return ``toolIntelligence`` of a session, with the reason if it is null."""
        rows = withhold(reports_of(self.here.stores, window), self.waiting)
        if rows.is_empty():
            return {"toolIntelligence": None, "reason": "no tool calls"}
        found = _tool_intelligence(rows.row(0, named=True), texts=sees_texts(self.caller))
        return {"runId": window["session_key"], "toolIntelligence": found}


@ROUTER.post("/api/v1/gateway", responses=answers(dict[str, object], 404, 409))
async def gateway(
    kept: Annotated[Kept, Depends(kept_of)],
    methods: Annotated[_Gateway, Depends()],
    request: Annotated[GatewayRequest, Body()],
) -> JSONResponse:
    """Call a method by its name.

    ``evaluation.scorecards.override`` needs the role reviewer, ``evaluation.judges.set`` operator
    of all organizations, the others reader. Readers get null for text.
    """
    if not isinstance(request, ComparisonRequest):
        return as_json(await run_in_threadpool(methods.answer, request))
    params = request.params
    asked = Asked(organization_of(methods.caller), params.classification_label, params.span)
    found = await kept.comparisons.answer(asked, methods.here.clock())
    shown = await run_in_threadpool(for_reviewer, found, methods.waiting)
    return as_json(_comparison(shown))


def _comparison(found: Comparison) -> dict[str, Any]:
    """Return the rows of the models and the verdicts on pairs of them.

    ``avgScore`` is the mean of the runs' effective scores. The mean of people's means, on which
    rank, intervals and verdicts rest, is ``peopleAlikeAvgScore``.
    """
    return {
        "from": json_value(found.question.since),
        "to": json_value(found.question.until),
        "models": [camel_row(_model(row)) for row in found.models.iter_rows(named=True)],
        "pairs": [camel_row(row) for row in found.pairs.iter_rows(named=True)],
    }


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    score, cost = row["avg_effective_score"], row["avg_cost_usd"]
    has_worth = score is not None and row["score_per_dollar"] is not None
    of_runs = {"avg_score": score, "score_per_dollar": score / cost if has_worth else None}
    shown = dict[str, Any]()
    for name, value in row.items():
        figure = name.removesuffix("_low").removesuffix("_high")
        if name in of_runs:
            shown[name] = of_runs[name]
        shown[f"people_alike_{name}" if figure in of_runs else name] = value
    del shown["avg_effective_score"]
    return shown


def _profile(registered: Registered) -> dict[str, Any]:
    """Return the fields of a profile in camel case, with time and source of registration."""
    fields = registered.profile.model_dump(mode="json")
    return {
        **{camel(name): _in_camel(value) for name, value in fields.items()},
        "frozenUntil": json_value(registered.profile.frozen_until),
        "origin": registered.origin,
        "registeredAt": json_value(registered.registered_at),
    }


def _in_camel(value: Any) -> Any:
    return (
        {camel(name): inner for name, inner in value.items()} if isinstance(value, dict) else value
    )


def _tool_intelligence(report: Mapping[str, Any], *, texts: bool) -> dict[str, Any]:
    """Return the fields of a tool report; a list of a class of calls that is unknown is null."""
    shown = report if texts else without(report, TOOL_TEXTS)
    lists = {name: _calls(shown[column]) for name, column in _LISTS.items()}
    return {
        "effectivenessScore": json_value(shown["effectiveness_score"]),
        **lists,
        **camel_row({name: shown[name] for name in _FIGURES}),
    }


def _calls(calls: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if calls is None:
        return None
    rows = [camel_row(call) for call in calls]
    for row in rows:
        if "similarity" in row:
            row["paramSimilarity"] = row.pop("similarity")
    return rows


def _card(
    row: Mapping[str, Any], report: Mapping[str, Any] | None, *, texts: bool
) -> dict[str, Any]:
    reasoning = row["reasoning"] if texts else None
    is_computed = row["method"] == "heuristic"
    return {
        "runId": row["session_key"],
        **camel_row({name: row[name] for name in _SAME}),
        "criteriaScores": json_row({"scores": row["criteria_scores"]})["scores"] or {},
        "reasoning": None if is_computed else reasoning,
        "explanation": reasoning,
        "humanOverride": _override(row["human_override"], texts=texts),
        "judgeProfileId": row["profile_id"],
        "judgeProfileVersion": row["profile_version"],
        "toolIntelligence": None if report is None else _tool_intelligence(report, texts=texts),
        "awaitsReview": row[WAITS],
    }


def _override(human: Mapping[str, Any] | None, *, texts: bool) -> dict[str, Any] | None:
    if human is None:
        return None
    shown = camel_row(human)
    return shown if texts else {**shown, "reason": None}
