"""Permits of calls: their order, their number, and that none is lost."""

import asyncio

import pytest

from evaluation_pipelines.judging.runner.run_context import PrioritySemaphore


def test_the_waiter_with_most_turns_left_goes_first_and_of_equals_the_earliest() -> None:
    order: list[str] = []

    async def call(semaphore: PrioritySemaphore, name: str, turns_left: int) -> None:
        async with semaphore.acquire(turns_left):
            order.append(name)
            await asyncio.sleep(0)

    async def run() -> None:
        semaphore = PrioritySemaphore(1)
        calls = [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 2)]
        await asyncio.gather(*(call(semaphore, *each) for each in calls))

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
