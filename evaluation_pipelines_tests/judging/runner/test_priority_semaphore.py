"""Who gets a slot, when, and that none is lost."""

import asyncio

import pytest

from evaluation_pipelines.judging.runner.priority_semaphore import PrioritySemaphore


def test_who_has_most_left_to_ask_goes_first_and_of_equals_the_earliest() -> None:
    order: list[str] = []

    async def call(slots: PrioritySemaphore, name: str, turns_left: int) -> None:
        async with slots.taken(turns_left):
            order.append(name)
            await asyncio.sleep(0)

    async def run() -> None:
        slots = PrioritySemaphore(1)
        calls = [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 2)]
        await asyncio.gather(*(call(slots, *each) for each in calls))

    asyncio.run(run())
    assert order == ["a", "c", "e", "b", "d"]


def test_no_more_are_under_way_than_there_are_slots() -> None:
    under_way, most = 0, 0

    async def call(slots: PrioritySemaphore) -> None:
        nonlocal under_way, most
        async with slots.taken(1):
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.001)
            under_way -= 1

    async def run() -> None:
        slots = PrioritySemaphore(3)
        await asyncio.gather(*(call(slots) for _ in range(20)))

    asyncio.run(run())
    assert most == 3


@pytest.mark.parametrize("when", ["before its turn", "at its turn"])
def test_a_slot_is_not_lost_with_one_who_gives_up(when: str) -> None:
    async def hold(slots: PrioritySemaphore, gate: asyncio.Event) -> None:
        async with slots.taken(1):
            await gate.wait()

    async def run() -> None:
        slots, gate = PrioritySemaphore(1), asyncio.Event()
        holder = asyncio.create_task(hold(slots, gate))
        await asyncio.sleep(0)
        quitter = asyncio.create_task(hold(slots, gate))
        await asyncio.sleep(0)
        if when == "before its turn":
            quitter.cancel()
            await asyncio.sleep(0)
            gate.set()
        else:
            gate.set()
            await holder
            quitter.cancel()
        await asyncio.gather(holder, quitter, return_exceptions=True)
        async with asyncio.timeout(5), slots.taken(1):
            pass  # it is free again

    asyncio.run(run())


def test_one_who_fails_gives_the_slot_back() -> None:
    async def run() -> None:
        slots = PrioritySemaphore(1)
        with pytest.raises(ValueError, match="odd"):
            async with slots.taken(1):
                raise ValueError("odd")
        async with asyncio.timeout(5), slots.taken(1):
            pass

    asyncio.run(run())
