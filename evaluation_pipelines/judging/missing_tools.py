"""The tools that judges say were missing: counted from the lake, put in order by a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools.counts import (
    SCORE_COLUMNS,
    Counted,
    Period,
    count_missing_tools,
)
from evaluation_pipelines.judging.domain.missing_tools.priorities import (
    read_priorities,
    with_priorities,
)
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.ledger.tool_priorities import AskedPriorities, PriorityStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES, MISSING_TOOLS
from evaluation_pipelines.storage.stores import Stores

DAYS = 28

_NEVER_ANSWERED = "it was asked, and whoever asked did not live to hear the answer"


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing tools of a period.

    Attributes:
        counted: What was counted, and what was not.
        tools: MISSING_TOOLS, the model's priorities put in.
        orders: What became of the model's lists, a line each; empty when it was not asked.
        cost_usd: What they cost together, as far as it is known; None when it is not.
    """

    counted: Counted
    tools: pl.DataFrame
    orders: tuple[str, ...] = ()
    cost_usd: float | None = None


def last_period(now: datetime) -> Period:
    """The 28 complete days (UTC) before a time."""
    today = now.astimezone(UTC).date()
    return Period(today - timedelta(days=DAYS), today)


def missing_tools(
    stores: Stores,
    period: Period,
    organization: str | None = None,
) -> Missing:
    """The missing tools of a period, with what a model was asked about it.

    Args:
        stores: the stores.
        period: session dates.
        organization: only this one.

    Raises:
        LakeError: a file cannot be read.
        LedgerError: the ledger cannot be used.
    """
    counted = _count(stores, period, organization)
    asked = [
        each
        for each in PriorityStore(stores.ledger).of_period(period.start, period.end)
        if organization in {None, each.organization_id}
    ]
    return _ordered(counted, asked)


def write_missing_tools(stores: Stores, period: Period) -> Missing:
    """Replace ``missing_tools``: a period, and the one of the same length before it.

    Gives that of the period. Raises like ``missing_tools``, and LakeError when it cannot be
    written.
    """
    before = Period(period.start - (period.end - period.start), period.start)
    present, past = (missing_tools(stores, each) for each in (period, before))
    rows = pl.concat([past.tools, present.tools]).sort(MISSING_TOOLS.order)
    stores.lake.write_whole(rows, MISSING_TOOLS)
    return present


def _count(stores: Stores, period: Period, organization: str | None) -> Counted:
    days = _days(period)
    wanted = pl.lit(value=True)
    if organization is not None:
        wanted = pl.col("organization_id") == organization
    scores = stores.lake.read(JUDGE_SCORES, days, SCORE_COLUMNS, wanted)
    sessions = stores.lake.read(
        AGENT_SESSIONS, days, ["organization_id", "session_key", "masque"], wanted
    )
    return count_missing_tools(scores, sessions, period)


def _days(period: Period) -> list[date]:
    return [period.start + timedelta(days=n) for n in range((period.end - period.start).days)]


def _ordered(counted: Counted, asked: Sequence[AskedPriorities]) -> Missing:
    tools, lines = counted.tools, []
    for each in asked:
        mine = counted.tools.filter(organization_id=each.organization_id)
        line = each.error_message or _NEVER_ANSWERED
        if each.answer is not None and each.error_message is None:
            try:
                found = read_priorities(Reply(each.answer, "stop"), mine)
            except ValueError as error:  # the counts have changed since
                line = str(error)
            else:
                tools = with_priorities(tools, each.organization_id, found)
                line = f"{len(found.reasons)} tools put in order by {each.judge_model}"
                if found.unknown:
                    line += f"; {found.unknown} items of its list name none of them: left out"
        lines.append(f"{each.organization_id}: {line}")
    costs = [each.judge_cost_usd for each in asked if each.judge_cost_usd is not None]
    return Missing(counted, tools, tuple(lines), sum(costs) if costs else None)
