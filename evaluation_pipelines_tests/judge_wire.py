"""HTTP/1.1 as far as a scripted endpoint needs it, broken where a script says so."""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines_tests.judge_scripts import Line

_DRIP_S = 0.05
_FOR_EVER_S = 3600


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request; ``body`` is its decoded JSON, None without one."""

    method: str
    headers: dict[str, str]
    raw: bytes
    body: Any


async def read_request(reader: asyncio.StreamReader) -> WireRequest | None:
    """The next request of a connection; None when the client has closed it."""
    first = await reader.readline()
    if not first:
        return None
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return WireRequest(first.split()[0].decode(), headers, raw, json.loads(raw) if raw else None)


async def send(
    writer: asyncio.StreamWriter,
    status: int,
    headers: dict[str, str],
    body: bytes,
    line: Line = Line.WHOLE,
) -> None:
    """Send an answer, or what is left of it."""
    shown = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    fields = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
    head = f"HTTP/1.1 {status} Scripted\r\n{fields}\r\n".encode()
    if line is Line.WHOLE:
        writer.write(head + body)
        await writer.drain()
    elif line is Line.HALF:
        writer.write(head + body[: len(body) // 2])
        await writer.drain()
    elif line is Line.RESET:
        # With no time to linger, closing sends a reset in place of an orderly end.
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    elif line is Line.HANG:
        await asyncio.sleep(_FOR_EVER_S)
    else:
        writer.write(head)
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(_DRIP_S)
