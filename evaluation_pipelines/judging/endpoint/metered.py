"""Calls whose cost is booked, whatever becomes of them."""

from collections.abc import Awaitable, Callable, Sequence

from evaluation_pipelines.judging.domain.budget.run_budget import MeteredCall
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.circuit_breaker import CircuitOpenError
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, JudgeClient
from evaluation_pipelines.judging.endpoint.errors import BudgetReachedError, JudgeCallError


async def ask_metered(
    client: JudgeClient,
    messages: Sequence[Message],
    metered: MeteredCall,
    reserve_again: Callable[[], Awaitable[bool]],
) -> JudgeAnswer:
    """Make a call for which money is reserved, and book its actual cost.

    Args:
        client: Client of the model.
        messages: The request.
        metered: Books the attempts of the call.
        reserve_again: Reserves the same amount in the daily budget for another attempt after one
            that may have been charged; returns whether it fits.

    Raises:
        As ``JudgeClient.ask``.
    """

    async def may_pay_again() -> bool:
        if not metered.may_pay_again():
            return False
        if await reserve_again():
            return True
        metered.cancel_retry()
        return False

    cost_usd: float | None = None  # of a canceled call, or of a bug
    try:
        answer = await client.ask(messages, may_pay_again)
        cost_usd = answer.cost_usd
    except (JudgeCallError, CircuitOpenError, BudgetReachedError) as error:
        cost_usd = error.cost_usd
        raise
    finally:
        metered.settle(cost_usd)
    return answer
