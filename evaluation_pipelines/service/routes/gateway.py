"""Route of the gateway."""

from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse

from evaluation_pipelines.service.gateway.methods import answer
from evaluation_pipelines.service.gateway.requests import GatewayRequest
from evaluation_pipelines.service.routes.common import Here, Reader, Waiting, answers, as_json

ROUTER = APIRouter(tags=["gateway"])


@ROUTER.post("/api/v1/gateway", responses=answers(dict[str, object], 404, 409))
def gateway(
    here: Here, caller: Reader, waiting: Waiting, request: Annotated[GatewayRequest, Body()]
) -> JSONResponse:
    """Call a method by its name.

    ``evaluation.scorecards.override`` needs the role reviewer, ``evaluation.judges.set`` operator
    of all organizations, the others reader. Readers get null for texts.
    """
    return as_json(answer(here, caller, waiting, request))
