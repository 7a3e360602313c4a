"""Answers of a scripted judge: good judgments by default, all kinds of faults, and the wire."""

import asyncio
import hashlib
import json
import re
import socket
import struct
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

_FORM_LINE = re.compile(r"^([a-z][a-z0-9_]*): <points>/(\d+)\s*$", re.MULTILINE)
_USUAL_CRITERIA = dict.fromkeys(
    ("logical_flow", "consistency", "tool_relevance", "synthesis_quality"), 25
)
_DRIP_S = 0.05
_FOREVER_S = 3600
SCORE, REMINDER, MISSING_TOOLS = "score", "reminder", "missing-tools"


class AnswerDelivery(Enum):
    """How an answer is delivered."""

    WHOLE = auto()
    HALF = auto()
    RESET = auto()
    HANG = auto()
    DRIP = auto()


@dataclass(frozen=True, slots=True)
class Scripted:
    """One scripted answer.

    Attributes:
        text: Text of the reply; ``None`` for the default judgment of the turn.
        message: Fields that override those of the message.
        finish_reason: Finish reason of the reply.
        status: HTTP status.
        headers: Headers of the answer.
        body: Body that replaces the chat completion.
        delivery: How the answer is delivered.
        delay_s: Delay in addition to the latency of the endpoint.
        usage: Usage of the completion; ``None`` sends none, an empty dict sends the counted one.
    """

    text: str | None = None
    message: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delivery: AnswerDelivery = AnswerDelivery.WHOLE
    delay_s: float = 0
    usage: dict[str, Any] | None = field(default_factory=dict)


def says(text: str, **more: Any) -> Scripted:
    """Return an answer with this text."""
    return Scripted(text=text, **more)


def score_reply(total: int | str = 64, analysis: str = "The work was orderly.") -> str:
    """Return a judgment in the usual form; the criteria add up to 64."""
    points = zip(_USUAL_CRITERIA, (17, 18, 14, 15), strict=True)
    lines = [f"{name}: {value}/25" for name, value in points]
    return "\n".join([analysis, "", *lines, "failure tags: missed_available_tool", str(total)])


def prose_score() -> Scripted:
    """Return a judgment whose total is part of a sentence."""
    return says(score_reply("I would give this session 64 points."))


def refuses() -> Scripted:
    """Return a refusal."""
    return Scripted(message={"content": None, "refusal": "I cannot help with that."})


def cut_by_length() -> Scripted:
    """Return a truncated judgment with a number as its last line."""
    return says("The work was orderly.\n12", finish_reason="length")


def http_error(status: int, message: str = "", code: str | None = None, **headers: str) -> Scripted:
    """Return an error in the format of OpenAI; ``Retry_After="2"`` becomes a header."""
    error = {"error": {"message": message or f"status {status}", "type": "error", "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status=status, headers=named, body=json.dumps(error).encode())


def rate_limited(retry_after: str = "1") -> Scripted:
    """Return status 429 with ``Retry-After``."""
    return http_error(429, "slow down", "rate_limit_exceeded", Retry_After=retry_after)


def html() -> Scripted:
    """Return the login page of a proxy with status 200."""
    page = b"<!doctype html><title>Sign in</title>"
    return Scripted(body=page, headers={"Content-Type": "text/html"})


def garbage() -> Scripted:
    """Return bytes that are neither JSON nor text."""
    return Scripted(body=b"\x00\xff\xfe{[not json")


def choices_null() -> Scripted:
    """Return a completion without choices."""
    return Scripted(body=b'{"id":"1","object":"chat.completion","choices":null}')


def half_a_body() -> Scripted:
    """Return an answer that ends before its announced length."""
    return Scripted(delivery=AnswerDelivery.HALF)


def reset() -> Scripted:
    """Reset the connection without an answer."""
    return Scripted(delivery=AnswerDelivery.RESET)


def hangs() -> Scripted:
    """Accept the request and never answer."""
    return Scripted(delivery=AnswerDelivery.HANG)


def drips() -> Scripted:
    """Send the answer byte by byte, so that no single read takes long."""
    return Scripted(delivery=AnswerDelivery.DRIP)


def turn_of(messages: list[dict[str, Any]]) -> str:
    """Return the turn of a request: score, reminder or missing-tools."""
    last = messages[-1]["content"]
    if all(message["role"] != "assistant" for message in messages):
        return REMINDER if "An earlier answer to this was cut" in last else SCORE
    return REMINDER if "cannot be read" in last else MISSING_TOOLS


def good_reply(turn: str, messages: list[dict[str, Any]]) -> str:
    """Return a good reply, which is the same for the same session."""
    asked = "\n".join(message["content"] for message in messages if message["role"] != "assistant")
    if turn == MISSING_TOOLS:
        return "1. Grep: a search for the error text would have led to the file at once."
    session = next(message["content"] for message in messages if message["role"] == "user")
    lines = _judgment(_FORM_LINE.findall(asked), session)
    if turn == REMINDER:
        return lines
    why = "The course was sound, yet a tool at hand was left unused and one claim was not checked."
    return f"{why}\n\n{lines}"


def _judgment(form: list[tuple[str, str]], session: str) -> str:
    criteria = {name: int(most) for name, most in form} or _USUAL_CRITERIA
    digest = hashlib.sha256(session.encode("utf-8", "replace")).digest()
    # Between 50 and 80 percent of each criterion, so that totals are in the usual range.
    points = {
        name: round(most * (50 + byte % 31) / 100)
        for (name, most), byte in zip(criteria.items(), digest, strict=False)
    }
    lines = [f"{name}: {given}/{criteria[name]}" for name, given in points.items()]
    tags = "missed_available_tool" if digest[-1] % 2 else "none"
    return "\n".join([*lines, f"failure tags: {tags}", str(sum(points.values()))])


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
