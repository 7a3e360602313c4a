"""Missing tools named by judges: counted from the lake, prioritized by a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools.counts import (
    SCORE_COLUMNS,
    MissingToolCounts,
    Period,
    count_missing_tools,
)
from evaluation_pipelines.judging.domain.missing_tools.priorities import (
    read_priorities,
    with_priorities,
)
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.ledger.tool_priorities import AskedPriorities, PriorityStore
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.schemas import AGENT_SESSIONS, MISSING_TOOLS
from evaluation_pipelines.sessions.chosen import rows_of_chosen
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.storage.stores import Stores

DAYS = 28

_NEVER_ANSWERED = "the model was asked, but the process ended before the answer arrived"


@dataclass(frozen=True, slots=True)
class MissingTools:
    """The missing tools of a period.

    Attributes:
        counted: The counts, and the answers that could not be counted.
        tools: MISSING_TOOLS with the priorities of the model.
        priority_notes: One line per question to the model; empty if it was not asked.
        cost_usd: Total cost of the questions with a known cost; ``None`` if there are none.
    """

    counted: MissingToolCounts
    tools: pl.DataFrame
    priority_notes: tuple[str, ...] = ()
    cost_usd: float | None = None


def last_period(now: datetime) -> Period:
    """Return the 28 complete days (UTC) before ``now``."""
    today = now.astimezone(UTC).date()
    return Period(today - timedelta(days=DAYS), today)


def missing_tools(
    stores: Stores,
    period: Period,
    organization: str | None = None,
    which: SessionFilter = ALL_SESSIONS,
) -> MissingTools:
    """Return the missing tools of a period with their priorities.

    Args:
        stores: Lake and ledger.
        period: Session dates.
        organization: The only organization to include; ``None`` for all.
        which: The sessions to include. The model has prioritized the tools of all of them.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    counted = _count(stores, period, organization, which)
    asked = [
        each
        for each in PriorityStore(stores.ledger).in_period(period.start, period.end)
        if organization in {None, each.organization_id}
    ]
    return _prioritize(counted, asked)


def write_missing_tools(stores: Stores, period: Period) -> MissingTools:
    """Replace the table ``missing_tools`` with a period and the one of the same length before it.

    Returns:
        The missing tools of ``period``.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    before = Period(period.start - (period.end - period.start), period.start)
    present, past = (missing_tools(stores, each) for each in (period, before))
    rows = pl.concat([past.tools, present.tools]).sort(MISSING_TOOLS.order)
    stores.lake.write_whole(rows, MISSING_TOOLS)
    return present


def _count(
    stores: Stores, period: Period, organization: str | None, which: SessionFilter
) -> MissingToolCounts:
    days = _days(period)
    condition = pl.lit(value=True)
    if organization is not None:
        condition = pl.col("organization_id") == organization
    scores = counting_scores(stores, days, SCORE_COLUMNS, condition)
    sessions = stores.lake.read(
        AGENT_SESSIONS, days, ["organization_id", "session_key", "masque"], condition
    )
    chosen = rows_of_chosen(stores.lake, which, scores)
    return count_missing_tools(chosen, sessions, period)


def _days(period: Period) -> list[date]:
    return [period.start + timedelta(days=n) for n in range((period.end - period.start).days)]


def _prioritize(counted: MissingToolCounts, asked: Sequence[AskedPriorities]) -> MissingTools:
    tools, lines = counted.tools, []
    for each in asked:
        of_organization = counted.tools.filter(organization_id=each.organization_id)
        line = each.error_message or _NEVER_ANSWERED
        if each.answer is not None and each.error_message is None:
            try:
                found = read_priorities(Reply(each.answer, "stop"), of_organization)
            except ValueError as error:  # the counts have changed since the question
                line = str(error)
            else:
                tools = with_priorities(tools, each.organization_id, found)
                line = f"{len(found.reasons)} tools prioritized by {each.judge_model}"
                if found.unknown:
                    line += f"; {found.unknown} items of its answer match no tool and are ignored"
        lines.append(f"{each.organization_id}: {line}")
    costs = [each.judge_cost_usd for each in asked if each.judge_cost_usd is not None]
    return MissingTools(counted, tools, tuple(lines), sum(costs) if costs else None)
