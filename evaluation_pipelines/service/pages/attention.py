"""The list of what needs attention, for the overview and the page of the doctor."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.attention.domain.arrivals import DAYS
from evaluation_pipelines.attention.domain.item import DOCTOR, Item, State
from evaluation_pipelines.attention.domain.items import Examined, Facts, attention, needing
from evaluation_pipelines.attention.domain.messages import names_person
from evaluation_pipelines.attention.gather import RECENT, examine, gather, rising_agents
from evaluation_pipelines.service.caller import check_all_organizations
from evaluation_pipelines.service.kept import PATIENCE_S
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.views.sessions import state_counts

ROUTER = APIRouter(include_in_schema=False)

_FIRST_PATIENCE_S = 0.5
"""How long the first page waits for what takes a while."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a visitor sees, from the tables in memory."""

    visit: Visit

    @property
    def organization(self) -> str | None:
        return self.visit.organization

    def recent(self, since: date) -> pl.DataFrame:
        rows = self.visit.kept.sessions.rows(self.visit.waiting)
        return rows.filter(pl.col("session_date") >= since).select(RECENT)

    def sessions(self, keys: Collection[str], since: date) -> pl.DataFrame:
        is_one = pl.col("session_key").is_in(sorted(keys))
        return self.visit.rows().filter(pl.col("session_date") >= since, is_one)

    def to_review(self) -> int:
        return len(self.visit.to_review)

    def books(self, days: Collection[date]) -> pl.DataFrame:
        return state_counts(self.visit.rows(), days)


def needs_of(visit: Visit) -> dict[str, Any]:
    """Return what needs attention that the visitor may see, for a template.

    What takes a while is examined in the background, and is that of the last minute:
    ``is_examining`` says that it is not known yet.
    """
    if visit.caller.organization is not None:
        items = needing(attention(_gather(visit, None)))
        return {"needs": [each for each in items if each.is_for_all], "is_examining": False}
    recent = visit.kept.examinations
    asked = visit.frame.address, visit.installation.clock()
    examined = recent.get(*asked, PATIENCE_S) or recent.get(*asked, _FIRST_PATIENCE_S)
    items = needing(attention(_gather(visit, examined)))
    return {"needs": items, "is_examining": examined is None}


def rising_of(visit: Visit) -> dict[tuple[str, str], list[Item]]:
    """Return the items about agents that the visitor sees, by organization and name."""
    return rising_agents(_View(visit), visit.installation.clock())


def _gather(visit: Visit, examined: Examined | None) -> Facts:
    now, address = visit.installation.clock(), visit.frame.address
    facts = gather(visit.stores, now, examined=examined, view=_View(visit), serves_at=address)
    if "person_id" not in visit.hidden:
        return facts
    seen = [each for each in facts.alerts if not names_person(each.alert.kind, each.alert.cause)]
    return replace(facts, alerts=seen)


@ROUTER.get("/operations/doctor")
def doctor(visit: Visitor) -> HTMLResponse:
    """Show all items; they are of the installation, not of an organization."""
    check_all_organizations(visit.caller)
    now, address = visit.installation.clock(), visit.frame.address
    examined = examine(visit.stores, now, asks=True, serves_at=address)
    items = attention(_gather(visit, examined))
    return visit.page(
        "doctor",
        needs=needing(items),
        fine=[each for each in items if each.state is State.OK],
        counts={state.value: sum(each.state is state for each in items) for state in State},
        programs=examined.arrivals,
        doctor=DOCTOR,
        days=DAYS,
    )
