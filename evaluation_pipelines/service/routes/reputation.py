"""Routes of agents' reputation."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool

from evaluation_pipelines.reputation.submitted import (
    Source,
    SubmittedEvaluation,
    SubmittedEvaluations,
    agent_organization,
    reputation_record,
)
from evaluation_pipelines.service.caller import organization_of, waiting_for
from evaluation_pipelines.service.routes.common import (
    Here,
    Organization,
    Reader,
    Sender,
    Waiting,
    errors,
)

ROUTER = APIRouter(prefix="/v1", tags=["reputation"])

_DEFAULT_ORGANIZATION = "default"

Lifecycle = Literal["new", "calibrating", "active", "mature"]
Agent = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]*$")]


class NewEvaluation(BaseModel):
    """An evaluation of an agent. Without an id each request is a new one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    agent_id: Agent
    passed: StrictBool
    latency_ms: Annotated[float | None, Field(ge=0)] = None
    latency_budget_ms: Annotated[float | None, Field(gt=0)] = None
    evaluation_id: Agent | None = None
    evaluated_at: AwareDatetime | None = None
    model: Agent | None = None
    source: Source | None = None


class ShortReputation(BaseModel):
    """The score of an agent, with the evaluation just sent."""

    score: int | None = Field(description="0-1000, null below 50 evaluations")
    lifecycle: Lifecycle
    eval_count: int = Field(description="evaluations in the window")
    progress: str | None = Field(description="evaluations of the 50 that a rating needs")


class Evaluated(BaseModel):
    """What was stored, and the reputation that follows."""

    evaluation_id: str
    passed: bool
    reputation: ShortReputation


class Reputation(ShortReputation):
    """The record of an agent; an unknown one is new."""

    agent_id: str
    organization_id: str
    window_size: int
    pass_rate: float
    avg_latency_ms: float | None
    streak: int = Field(description="consecutive passes up to the latest evaluation")
    updated_at: AwareDatetime


@ROUTER.post("/evaluate", responses=errors(404, 409))
def evaluate(
    request: Request,
    here: Here,
    caller: Sender,
    sent: NewEvaluation,
    organization: Organization = None,
) -> Evaluated:
    """Store an evaluation of an agent, and return the reputation that counts it.

    A retry with the same evaluation_id changes nothing; other content under it is 409.
    """
    owner, now = organization_of(caller, organization) or _DEFAULT_ORGANIZATION, here.clock()
    new = SubmittedEvaluation(owner, **sent.model_dump())
    stored = SubmittedEvaluations(here.stores.ledger).add(new, caller.name, now)
    waiting = waiting_for(request, caller)
    record = reputation_record(here.stores, owner, sent.agent_id, now, waiting)
    return Evaluated(
        evaluation_id=stored["evaluation_id"],
        passed=stored["passed"],
        reputation=ShortReputation.model_validate(record),
    )


@ROUTER.get("/reputation/{agent_id:path}", responses=errors(404))
def reputation(
    here: Here,
    caller: Reader,
    waiting: Waiting,
    agent_id: Annotated[str, Path(min_length=1, max_length=1024, pattern=r"^[^\x00]*$")],
    organization: Organization = None,
) -> Reputation:
    """Return the reputation of an agent, with all evaluations until now.

    A key of all organizations names one if several have an agent of this id.
    """
    named = organization_of(caller, organization)
    owner = named or agent_organization(here.stores, agent_id) or _DEFAULT_ORGANIZATION
    now = here.clock()
    record: dict[str, Any] = reputation_record(here.stores, owner, agent_id, now, waiting)
    return Reputation.model_validate(record)
