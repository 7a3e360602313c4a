"""Permits of calls and the money of a run: who is served first, and that nothing is lost."""

import asyncio

import pytest

from evaluation_pipelines.judging.context import BudgetGate, PrioritySemaphore
from evaluation_pipelines.judging.domain.budget import (
    Budget,
    BudgetLimits,
    Deferred,
    Limit,
    Reservation,
)


def test_the_waiter_with_most_turns_left_goes_first_and_of_equals_the_earliest() -> None:
    order: list[str] = []

    async def call(semaphore: PrioritySemaphore, name: str, turns_left: int) -> None:
        async with semaphore.acquire(turns_left):
            order.append(name)
            await asyncio.sleep(0)

    async def run() -> None:
        semaphore = PrioritySemaphore(1)
        calls = [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 2)]
        await asyncio.gather(*(call(semaphore, *asked) for asked in calls))

    asyncio.run(run())
    assert order == ["a", "c", "e", "b", "d"]


def test_no_more_calls_are_in_flight_than_there_are_permits() -> None:
    in_flight, most = 0, 0

    async def call(semaphore: PrioritySemaphore) -> None:
        nonlocal in_flight, most
        async with semaphore.acquire(1):
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.001)
            in_flight -= 1

    async def run() -> None:
        semaphore = PrioritySemaphore(3)
        await asyncio.gather(*(call(semaphore) for _ in range(20)))

    asyncio.run(run())
    assert most == 3


@pytest.mark.parametrize("when", ["while waiting", "when granted"])
def test_a_permit_is_not_lost_with_a_canceled_waiter(when: str) -> None:
    async def hold(semaphore: PrioritySemaphore, gate: asyncio.Event) -> None:
        async with semaphore.acquire(1):
            await gate.wait()

    async def run() -> None:
        semaphore, gate = PrioritySemaphore(1), asyncio.Event()
        holder = asyncio.create_task(hold(semaphore, gate))
        await asyncio.sleep(0)
        waiter = asyncio.create_task(hold(semaphore, gate))
        await asyncio.sleep(0)
        if when == "while waiting":
            waiter.cancel()
            await asyncio.sleep(0)
            gate.set()
        else:
            gate.set()
            await holder
            waiter.cancel()
        await asyncio.gather(holder, waiter, return_exceptions=True)
        async with asyncio.timeout(5), semaphore.acquire(1):
            pass  # the permit is free again

    asyncio.run(run())


def test_an_error_releases_the_permit() -> None:
    async def run() -> None:
        semaphore = PrioritySemaphore(1)
        with pytest.raises(ValueError, match="odd"):
            async with semaphore.acquire(1):
                raise ValueError("odd")
        async with asyncio.timeout(5), semaphore.acquire(1):
            pass

    asyncio.run(run())


async def admitted(gate: BudgetGate, most: float) -> Reservation:
    """Return the reservation of a session that fits."""
    found = await gate.admit(most)
    assert isinstance(found, Reservation)
    return found


async def loop_turns() -> None:
    """Let all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def fits(_: float) -> Deferred | None:
    return None


@pytest.mark.parametrize("limit", ["run", "day"])
def test_when_money_is_short_the_next_call_comes_before_a_new_session(limit: str) -> None:
    order: list[str] = []

    async def run() -> None:
        gate = BudgetGate(Budget(BudgetLimits(max_run_usd=5.0 if limit == "run" else None)))
        begun = await admitted(gate, 4.0)

        async def begin_another() -> None:
            another = await admitted(gate, 4.0)
            order.append("another begins")
            gate.close(another)

        if limit == "day":
            gate.note_short()
            begun.settle(4.0, 0.5)
            gate.note_reply(begun)
        waiting = asyncio.create_task(begin_another())
        await loop_turns()
        if limit == "run":
            begun.settle(4.0, 0.5)
            gate.notify_released()
            gate.note_reply(begun)
        # Its reply is being stored: a new session would take what the next call needs.
        await loop_turns()
        assert order == []
        assert await gate.extend(begun, 4.0, fits) is None
        order.append("the next call")
        begun.settle(4.0, 0.5)
        gate.close(begun)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())
    assert order == ["the next call", "another begins"]


def test_a_further_call_waits_until_every_other_session_has_written_what_it_cost() -> None:
    refused = Deferred(Limit.DAY_COST, "no money")
    attempts = 0

    async def run() -> None:
        gate = BudgetGate(Budget(BudgetLimits()))
        one, other = await admitted(gate, 4.0), await admitted(gate, 4.0)
        one.settle(4.0, 0.5)
        other.settle(4.0, 0.0)  # it failed: the ledger has its 4 dollars until it is left
        has_written = False

        async def reserve_day(_: float) -> Deferred | None:
            nonlocal attempts
            attempts += 1
            return None if has_written else refused

        further = asyncio.create_task(gate.extend(one, 4.0, reserve_day))
        await loop_turns()
        assert (further.done(), attempts) == (False, 1)
        has_written = True
        gate.close(other)
        assert await asyncio.wait_for(further, 5) is None

    asyncio.run(run())
    assert attempts == 2


def test_further_calls_that_wait_only_for_each_other_are_refused() -> None:
    refused = Deferred(Limit.DAY_COST, "no money")

    async def nothing_fits(_: float) -> Deferred | None:
        await asyncio.sleep(0)
        return refused

    async def run() -> list[Deferred | None]:
        gate = BudgetGate(Budget(BudgetLimits()))
        begun = [await admitted(gate, 4.0) for _ in range(3)]
        for reservation in begun:
            reservation.settle(4.0, 0.5)

        async def go_on(reservation: Reservation) -> Deferred | None:
            found = await gate.extend(reservation, 4.0, nothing_fits)
            gate.close(reservation)  # its session is left to another run
            return found

        return await asyncio.wait_for(asyncio.gather(*map(go_on, begun)), 5)

    assert asyncio.run(run()) == [refused] * 3
