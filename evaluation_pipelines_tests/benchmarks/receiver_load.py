"""Load on an OTLP endpoint: connections that each send one request after the other."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles


@dataclass(frozen=True, slots=True)
class Load:
    """What clients saw: wall time, and the times of single requests (ms)."""

    requests: int
    megabytes: float
    seconds: float
    p50_ms: float
    p99_ms: float


def send(port: int, bodies: Sequence[bytes], connections: int, requests: int) -> Load:
    """Send requests, the bodies in turn, and wait for each answer.

    Raises:
        AssertionError: an answer was not 200.
    """
    heads = [
        b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
        for body in bodies
    ]
    packed = [head + body for head, body in zip(heads, bodies, strict=True)]
    times_ms: list[float] = []

    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(first, requests, connections):
            began = time.perf_counter()
            writer.write(packed[number % len(packed)])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(_length(head))
            times_ms.append((time.perf_counter() - began) * 1000)
        writer.close()

    async def all_clients() -> None:
        await asyncio.gather(*(client(number) for number in range(connections)))

    began = time.perf_counter()
    asyncio.run(all_clients())
    seconds = time.perf_counter() - began
    percentiles = quantiles(times_ms, n=100)
    sent = sum(len(bodies[number % len(bodies)]) for number in range(requests))
    return Load(requests, sent / 1e6, seconds, percentiles[49], percentiles[98])


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
