"""Route of the gateway."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from evaluation_pipelines.comparison.domain.compare import for_reviewer
from evaluation_pipelines.service.gateway.comparison import model_comparison
from evaluation_pipelines.service.gateway.methods import answer
from evaluation_pipelines.service.gateway.requests import ComparisonRequest, GatewayRequest
from evaluation_pipelines.service.kept import Asked, Kept, kept_of
from evaluation_pipelines.service.routes.common import Here, Reader, Waiting, answers, as_json
from evaluation_pipelines.service.scope import organization_of

ROUTER = APIRouter(tags=["gateway"])


@ROUTER.post("/api/v1/gateway", responses=answers(dict[str, object], 404, 409))
async def gateway(
    kept: Annotated[Kept, Depends(kept_of)],
    here: Here,
    caller: Reader,
    waiting: Waiting,
    request: Annotated[GatewayRequest, Body()],
) -> JSONResponse:
    """Call a method by its name.

    ``evaluation.scorecards.override`` needs the role reviewer, ``evaluation.judges.set`` operator
    of all organizations, the others reader. Readers get null for texts.
    """
    if not isinstance(request, ComparisonRequest):
        return as_json(await run_in_threadpool(answer, here, caller, waiting, request))
    asked = Asked(organization_of(caller), request.params.classification_label, request.params.span)
    found = await kept.comparisons.answer(asked, here.clock())
    return await run_in_threadpool(lambda: as_json(model_comparison(for_reviewer(found, waiting))))
