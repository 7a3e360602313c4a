"""What the benchmark of the judge measures: sessions that are asked about in two turns each."""

import asyncio
from collections.abc import Iterator

from evaluation_pipelines.judging.domain.budget import Price
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.client import (
    CallLimits,
    Endpoint,
    JudgeAnswer,
    JudgeClient,
)

_RUBRIC = "Judge how the agent worked, step by step, and give points.\n" * 150
_STEP = "| 00:12 Bash: grep -rn 'needle' src; 14 lines of output\n"
_TRANSCRIPT_LETTERS = 40_000


def ask(base_url: str, sessions: int, concurrency: int) -> dict[str, float]:
    """Ask about all of them; how many calls were answered, and what they cost (US dollars)."""
    return asyncio.run(_ask(base_url, sessions, concurrency))


async def _ask(base_url: str, sessions: int, concurrency: int) -> dict[str, float]:
    endpoint, limits = Endpoint(base_url, "judge"), CallLimits(concurrency=concurrency)
    done = {"calls": 0.0, "usd": 0.0}
    numbers = iter(range(sessions))
    async with JudgeClient(endpoint, limits, Price(2.0, 8.0, 1.0)) as client:
        workers = [_work(client, numbers, done) for _ in range(concurrency)]
        await asyncio.gather(*workers)
    return done


async def _work(client: JudgeClient, numbers: Iterator[int], done: dict[str, float]) -> None:
    for number in numbers:
        score = Message("user", _prompt(number))
        reply = _count(await client.ask([score]), done).reply
        question = Message("user", "Which tools should have been used and were not?")
        _count(await client.ask([score, Message("assistant", reply.text), question]), done)


def _prompt(number: int) -> str:
    steps = _STEP * (_TRANSCRIPT_LETTERS // len(_STEP))
    return f"{_RUBRIC}\nSession {number}\n{steps}"


def _count(answer: JudgeAnswer, done: dict[str, float]) -> JudgeAnswer:
    done["calls"] += 1
    done["usd"] += answer.cost_usd or 0.0
    return answer
