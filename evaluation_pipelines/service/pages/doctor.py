"""Whether everything is well: telemetry, what runs, judge, disk, permissions, versions, clock."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.doctor.domain.arrivals import DAYS
from evaluation_pipelines.doctor.domain.diagnosis import diagnose, worst
from evaluation_pipelines.doctor.examine import examine
from evaluation_pipelines.service.caller import check_all_organizations
from evaluation_pipelines.service.pages.rendering import Visitor

ROUTER = APIRouter(include_in_schema=False)


@ROUTER.get("/operations/doctor")
def doctor(visit: Visitor) -> HTMLResponse:
    """Show all checks with what to do; they are of the installation, not of an organization."""
    check_all_organizations(visit.caller)
    now, address = visit.installation.clock(), visit.frame.address
    facts = examine(visit.stores, now, asks=True, serves_at=address)
    checks = diagnose(facts)
    return visit.page(
        "doctor", checks=checks, state=worst(checks), programs=facts.arrivals, days=DAYS
    )
