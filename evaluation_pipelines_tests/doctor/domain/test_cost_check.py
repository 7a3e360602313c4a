"""Sessions whose reported cost is not the list price of their tokens."""

import polars as pl

from evaluation_pipelines.doctor.domain.cost_check import (
    COST_COLUMNS,
    IS_CHECKED,
    CostCheck,
    cost_checks,
)
from evaluation_pipelines.schemas import AGENT_EVENTS


def request(session: str, cost: float, price: float | None, **columns: str) -> dict[str, object]:
    usual = {"source_cli": "claude_code", "organization_id": "default", "cost_source": "reported"}
    costs = {"cost_usd": cost, "list_price_usd": price}
    return {**usual, **costs, "session_id": session, **columns}


def test_sessions_that_cost_a_tenth_more_or_less_than_listed_are_counted() -> None:
    rows = [
        # 1.1 of 1.0: a tenth, no more.
        *(request("tenth", 0.5, 0.5), request("tenth", 0.6, 0.5)),
        # 1.2 of 1.0, and 0.8 of 1.0.
        *(request("more", 0.6, 0.5), request("more", 0.6, 0.5)),
        request("less", 0.8, 1.0),
        # Without a price or without a reported cost there is nothing to check.
        *(request("unlisted", 9.0, None), request("priced", 9.0, 1.0, cost_source="priced")),
        request("free", 0.0, 0.0, source_cli="opencode"),
    ]
    schema = {name: AGENT_EVENTS.schema[name] for name in COST_COLUMNS}
    requests = pl.DataFrame(rows, schema).filter(IS_CHECKED)

    assert cost_checks(requests) == {"claude_code": CostCheck(3, 2), "opencode": CostCheck(1, 0)}
