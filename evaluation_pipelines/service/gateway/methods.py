"""The six methods of the gateway: who may call them, and what they answer."""

from typing import Any

from evaluation_pipelines.access.domain.caller import Caller, Role
from evaluation_pipelines.comparison.domain.for_reviewers import for_reviewer
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.service.caller import check_all_organizations, check_role
from evaluation_pipelines.service.gateway.comparison import compared, model_comparison
from evaluation_pipelines.service.gateway.judges import list_judges, set_judge
from evaluation_pipelines.service.gateway.requests import (
    ComparisonRequest,
    GatewayRequest,
    ListRequest,
    OverrideRequest,
    QueryRequest,
    SetRequest,
    ToolReportRequest,
)
from evaluation_pipelines.service.gateway.scorecards import override_scorecard, query_scorecards
from evaluation_pipelines.service.gateway.tools import tool_report
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.scope import find_window, organization_of, sees_texts


def answer(
    installation: Installation,
    caller: Caller,
    waiting: frozenset[SessionKey],
    request: GatewayRequest,
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
        case ComparisonRequest(params=params):
            organization = organization_of(caller)
            label = params.classification_label
            found = compared(stores, organization, label, params.span, now)
            return model_comparison(for_reviewer(found, waiting))
        case ToolReportRequest(params=params):
            window = find_window(stores, caller, params.run_id)
            return tool_report(stores, window, waiting, texts=sees_texts(caller))
