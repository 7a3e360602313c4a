"""Size and time of the bodies that routes of the API read; the receiver has limits of its own."""

import asyncio

from starlette.types import Message, Receive

from evaluation_pipelines.service.errors import ServiceError

MAX_BODY_BYTES = 1024 * 1024
MAX_BODY_SECONDS = 30.0


def limited(receive: Receive, max_bytes: int, seconds: float) -> Receive:
    """Return a function that receives a body of at most ``max_bytes`` within ``seconds``.

    It raises ServiceError 413 or 408. What follows the body, a disconnect, is waited for forever.
    """
    end: float | None = None
    left, is_complete = max_bytes, False

    async def receive_within_limits() -> Message:
        nonlocal end, left, is_complete
        if is_complete:
            return await receive()
        now = asyncio.get_running_loop().time()
        end = now + seconds if end is None else end
        try:
            message = await asyncio.wait_for(receive(), max(end - now, 0))
        except TimeoutError:
            reason = f"The body did not arrive within {seconds:g} seconds."
            raise ServiceError(408, "too_slow", reason, None, {"Connection": "close"}) from None
        left -= len(message.get("body", b""))
        if left < 0:
            reason = f"A body may have {max_bytes} bytes."
            # The server reads on without keeping anything: a connection that ends while a client
            # writes is an error for it, and it would never see the reason.
            raise ServiceError(413, "too_large", reason)
        is_complete = not message.get("more_body", False)
        return message

    return receive_within_limits
