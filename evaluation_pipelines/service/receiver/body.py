"""The body of a request: received within limits of size and time, decompressed."""

import asyncio
import time
import zlib

from starlette.requests import ClientDisconnect, Request

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.receiver.in_flight import Claim

_GZIP = 31  # zlib's number for gzip with its header and checksum
_RATIO_FREE_BYTES = 1024 * 1024
"""Decompressed size up to which the ratio is not checked."""

_LEAST_DECOMPRESSED_BYTES = 64 * 1024
_PIECE_BYTES = 16 * 1024
"""How much is decompressed at a time; what follows a member within a piece is copied."""

_MAX_MEMBERS = 1000
_MAX_DECOMPRESSION_SECONDS = 5.0


async def read_body(
    request: Request, claim: Claim, *, max_bytes: int, max_ratio: int, seconds: float
) -> bytes:
    """Return the decompressed body.

    Raises:
        ServiceError: 400 cut off or damaged, 408 too slow, 413 too large, 415 another encoding
            than gzip, 429 or 503 too much at once.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise ServiceError(415, "unknown_encoding", "Bodies are sent as they are, or as gzip.")
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > max_bytes:
        raise too_large(max_bytes)
    try:
        async with asyncio.timeout(seconds):
            body = await _received(request, claim, max_bytes)
    except TimeoutError:
        raise ServiceError(
            408, "too_slow", f"The body did not arrive within {seconds:g} seconds.", None, _CLOSE
        ) from None
    except ClientDisconnect:
        raise ServiceError(400, "cut_off", "The connection ended within the body.") from None
    if encoding != "gzip":
        return body
    limit = min(max_bytes, max(_RATIO_FREE_BYTES, len(body) * max_ratio))
    claim.grow(min(limit, max(len(body) * 8, _LEAST_DECOMPRESSED_BYTES)))  # about what it will take
    # A few kilobytes may take the event loop long enough that others notice.
    return await asyncio.to_thread(decompressed, body, limit)


async def _received(request: Request, claim: Claim, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            raise too_large(max_bytes)
        claim.grow(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def decompressed(body: bytes, limit: int) -> bytes:
    """Return the content of gzip, of one member or several.

    Raises:
        ServiceError: 413 more than ``limit`` bytes, 400 no sound gzip, or one that is made to take
            long.
    """
    pieces, left, position, members = list[bytes](), limit, 0, 0
    end = time.monotonic() + _MAX_DECOMPRESSION_SECONDS
    while position < len(body):
        member, members = zlib.decompressobj(_GZIP), members + 1
        if members > _MAX_MEMBERS:
            raise _damaged(f"it has more than {_MAX_MEMBERS} members")
        while not member.eof:
            part = body[position : position + _PIECE_BYTES]
            if not part:
                raise _damaged("its end is missing")
            if time.monotonic() > end:
                raise _damaged(f"it takes more than {_MAX_DECOMPRESSION_SECONDS:g} seconds")
            try:
                piece = member.decompress(part, left + 1)
            except zlib.error as error:
                raise _damaged(str(error)) from None
            left -= len(piece)
            if left < 0:
                raise too_large(limit)
            pieces.append(piece)
            position += len(part) - len(member.unused_data)
    return b"".join(pieces)


def _damaged(reason: str) -> ServiceError:
    return ServiceError(400, "damaged", f"The body is no sound gzip: {reason}.")


_CLOSE = {"Connection": "close"}


def too_large(limit: int) -> ServiceError:
    """Return the answer for a body of more than ``limit`` bytes."""
    return ServiceError(
        413,
        "too_large",
        f"A body may have {limit} bytes, also when it is decompressed.",
        "Export smaller batches more often, or raise EVAL_RECEIVE_MAX_BODY_BYTES.",
    )
