"""The body of a request: received within limits of size and time, decompressed."""

import asyncio
import zlib

from starlette.requests import ClientDisconnect, Request

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.receiver.in_flight import Claim

_GZIP = 31  # zlib's number for gzip with its header and checksum
_RATIO_FREE_BYTES = 1024 * 1024
"""Decompressed size up to which the ratio is not checked."""

_IN_THREAD_BYTES = 64 * 1024


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
    claim.grow(min(limit, max(len(body) * 8, _IN_THREAD_BYTES)))  # about what it will take
    if len(body) < _IN_THREAD_BYTES:
        return decompressed(body, limit)
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
        ServiceError: 413 more than ``limit`` bytes, 400 no sound gzip.
    """
    pieces, size = [], 0
    while body:
        member = zlib.decompressobj(_GZIP)
        try:
            piece = member.decompress(body, limit - size + 1)
        except zlib.error as error:
            raise ServiceError(400, "damaged", f"The body is no sound gzip: {error}.") from None
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        if not member.eof:
            raise ServiceError(400, "damaged", "The end of the gzip body is missing.")
        pieces.append(piece)
        body = member.unused_data
    return b"".join(pieces)


_CLOSE = {"Connection": "close"}


def too_large(limit: int) -> ServiceError:
    """Return the answer for a body of more than ``limit`` bytes."""
    return ServiceError(
        413,
        "too_large",
        f"A body may have {limit} bytes, also when it is decompressed.",
        "Export smaller batches more often, or raise EVAL_RECEIVE_MAX_BODY_BYTES.",
    )
