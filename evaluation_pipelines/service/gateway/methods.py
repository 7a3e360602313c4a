"""The methods of the gateway but the comparison: who may call them, and what they answer."""

from typing import Any

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.service.caller import check_all_organizations, check_role
from evaluation_pipelines.service.gateway.judges import list_judges, set_judge
from evaluation_pipelines.service.gateway.requests import (
    ListRequest,
    OverrideRequest,
    QueryRequest,
    SetRequest,
    ToolReportRequest,
)
from evaluation_pipelines.service.gateway.scorecards import override_scorecard, query_scorecards
from evaluation_pipelines.service.gateway.tools import tool_report
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.scope import find_window, sees_texts


def answer(
    installation: Installation,
    caller: Caller,
    waiting: frozenset[SessionKey],
    request: QueryRequest | OverrideRequest | ListRequest | SetRequest | ToolReportRequest,
) -> dict[str, Any]:
    """Return the result of a method for what the caller may see.

    Profiles count for all organizations: the key of one organization cannot set them. Scores of
    the sessions ``waiting`` are withheld.
    """
    stores, now = installation.stores, installation.clock()
    match request:
        case QueryRequest(params=params):
            return query_scorecards(stores, caller, waiting, params)
        case OverrideRequest(params=params):
            check_role(caller, Role.REVIEWER)
            return override_scorecard(stores, caller, waiting, params, now)
        case ListRequest():
            return list_judges(stores)
        case SetRequest(params=params):
            check_role(caller, Role.OPERATOR)
            check_all_organizations(caller)
            return set_judge(stores, params.definition, now)
        case ToolReportRequest(params=params):
            window = find_window(stores, caller, params.run_id)
            return tool_report(stores, window, waiting, texts=sees_texts(caller))
