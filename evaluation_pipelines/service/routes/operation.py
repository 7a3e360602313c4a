"""Routes for whoever runs the service: health, readiness, metrics."""

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.service.caller import caller_of_everything
from evaluation_pipelines.service.errors import ErrorEnvelope, ServiceError
from evaluation_pipelines.service.installation import Installation, installation_of
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables.people import ACCESS_KEYS

ROUTER = APIRouter(tags=["operation"])

_TRIED_BYTES = 64 * 1024


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The ledger and the landing folder can be used."""

    status: Literal["ready"] = "ready"


@ROUTER.get("/health")
def health() -> Health:
    """Say that the process answers. Needs no key."""
    return Health()


@ROUTER.get(
    "/ready",
    responses={503: {"model": ErrorEnvelope, "description": "telemetry cannot be stored now"}},
)
def ready(installation: Annotated[Installation, Depends(installation_of)]) -> Readiness:
    """Say whether telemetry could be received now: 503 if not. Needs no key."""
    landing = installation.stores.landing.folder
    if landing is not None:
        _check_room(landing)
    with reading(installation.stores.ledger.engine) as connection:
        connection.execute(sa.select(ACCESS_KEYS.c.key_id).limit(1))
    return Readiness()


def _check_room(landing: Path) -> None:
    """Write and sync as for a record: only this shows a full disk, a quota, or lacking rights."""
    try:
        landing.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=landing, prefix=".") as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ServiceError(
            503,
            "not_ready",
            f"The landing folder cannot be written: {error.strerror or error}.",
            "Make room on its disk, or see who may write there; evaluation-pipelines doctor helps.",
        ) from None


@ROUTER.get("/metrics", response_class=Response)
def metrics(
    installation: Annotated[Installation, Depends(installation_of)],
    _caller: Annotated[Caller, Depends(caller_of_everything(Role.READER))],
) -> Response:
    """Return the metrics of the service in the text format of Prometheus."""
    return Response(installation.metrics.text(), media_type=CONTENT_TYPE_LATEST)
