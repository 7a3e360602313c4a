"""The part of HTTP/1.1 that a scripted endpoint needs, with scripted faults."""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines_tests.judge_scripts import AnswerDelivery

_DRIP_S = 0.05
_FOREVER_S = 3600


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request; ``body`` is its decoded JSON, ``None`` without a body or for a file."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any


async def read_request(reader: asyncio.StreamReader) -> WireRequest | None:
    """Return the next request of a connection; ``None`` after the client has closed it."""
    first = await reader.readline()
    if not first:
        return None
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    is_json = raw and not headers.get("content-type", "").startswith("multipart/")
    method, path = first.decode("latin-1").split()[:2]
    return WireRequest(method, path, headers, raw, json.loads(raw) if is_json else None)


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    headers: dict[str, str],
    body: bytes,
    delivery: AnswerDelivery = AnswerDelivery.WHOLE,
) -> None:
    """Send an answer in the given way."""
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode()
    if delivery is AnswerDelivery.WHOLE:
        writer.write(head + body)
        await writer.drain()
    elif delivery is AnswerDelivery.HALF:
        writer.write(head + body[: len(body) // 2])
        await writer.drain()
    elif delivery is AnswerDelivery.RESET:
        # Closing a socket with a linger time of 0 sends a reset.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    elif delivery is AnswerDelivery.HANG:
        await asyncio.sleep(_FOREVER_S)
    else:
        writer.write(head)
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(_DRIP_S)
