"""Sends chat completions through the ``openai`` library, and names whatever goes wrong."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from evaluation_pipelines.judging.endpoint.errors import Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.replies import shown, status_error

if TYPE_CHECKING:
    import openai

_LONGEST_CONNECT_S = 10.0
# The library insists on a key, local servers do not.
_NO_KEY = "none"


class Transport:
    """Connections to one endpoint."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_s: float, connections: int
    ) -> None:
        """Open nothing yet; connections come with the requests.

        Args:
            base_url: Without ``/chat/completions``.
            api_key: None where none is needed.
            timeout_s: Of one request, from start to end.
            connections: At the same time.
        """
        # Imported here: it takes longer than all else of the terminal.
        import httpx2
        import openai

        self._timeout_s = timeout_s
        self._secret = api_key
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key or _NO_KEY,
            max_retries=0,
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s / 2, _LONGEST_CONNECT_S)),
            http_client=openai.DefaultAsyncHttpx2Client(
                limits=httpx2.Limits(
                    max_connections=connections, max_keepalive_connections=connections
                ),
                # A transcript goes where it was meant to go.
                follow_redirects=False,
            ),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def send(self, body: dict[str, Any], now: Callable[[], datetime]) -> bytes:
        """The body of the answer to one request, whatever it holds.

        Raises:
            JudgeCallError: no answer came, or not with status 200.
        """
        import httpx2
        import openai

        # The plain request: ``chat.completions.create`` would walk through all of the prompt to
        # learn what is a plain document already, and decode an answer that is not trusted.
        try:
            # The library's own limit is for each read: a server that drips could take for ever.
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
        except openai.APIStatusError as error:
            wait_s = _retry_after_s(error.response.headers, now)
            raise status_error(error.status_code, error.body, wait_s, self._secret) from None
        except (openai.APIConnectionError, TimeoutError) as error:
            raise self._no_answer(error) from None
        return answer.content

    def _no_answer(self, error: "openai.APIConnectionError | TimeoutError") -> JudgeCallError:
        import httpx2
        import openai

        cause = error.__cause__
        unsent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        if not unsent and isinstance(error, openai.APITimeoutError | TimeoutError):
            what = f"the endpoint gave no whole answer within {self._timeout_s:g} s"
            return JudgeCallError(Fault.TIMEOUT, what, retriable=True, maybe_charged=True)
        how = "the endpoint cannot be reached" if unsent else "the endpoint broke off its answer"
        detail = shown(str(cause) or type(cause).__name__, self._secret)
        return JudgeCallError(
            Fault.CONNECTION, f"{how}: {detail}", retriable=True, maybe_charged=not unsent
        )


def _retry_after_s(headers: Any, now: Callable[[], datetime]) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if seconds >= 0:  # and no nan
            return seconds
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - now()).total_seconds(), 0.0)
