"""HTTP transport of chat completions by the ``openai`` library, in the form a server accepts.

OpenAI-compatible servers differ in the fields that they accept.

A server that rejects a field gets the request once more without it or in another way; the client
keeps what was accepted for all later requests.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.replies import (
    Fault,
    JudgeCallError,
    one_line_excerpt,
    status_error,
    storable_text,
)

if TYPE_CHECKING:
    import ssl

    import httpx2
    import openai


_LONGEST_CONNECT_S = 10.0
MAX_BODY_BYTES = 4_000_000
# The library requires a key, local servers do not.
_NO_KEY = "none"


class Transport:
    """Connections to one endpoint."""

    def __init__(
        self, base_url: str, api_key: str | None, timeout_s: float, connections: int
    ) -> None:
        """Configure the connections; they are opened by the first requests.

        Args:
            base_url: Address without ``/chat/completions``.
            api_key: API key; ``None`` if the endpoint needs none.
            timeout_s: Time limit of one request, from start to end.
            connections: Maximum number of open connections.
        """
        # Imported here: it takes longer than the rest of the command line's start.
        import httpx2
        import openai

        self._timeout_s = timeout_s
        self._secret = api_key
        self._client = openai.AsyncOpenAI(
            **client_options(base_url, api_key, timeout_s),
            http_client=openai.DefaultAsyncHttpx2Client(
                **connection_options(),
                limits=httpx2.Limits(
                    max_connections=connections, max_keepalive_connections=connections
                ),
                event_hooks={"response": [_limit_body]},
            ),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def send(self, body: dict[str, Any], now: Callable[[], datetime]) -> bytes:
        """Send one request and return the body of its answer, unparsed.

        Raises:
            JudgeCallError: No complete answer arrived, or its status is not 200.
        """
        import httpx2
        import openai

        # A plain request: ``chat.completions.create`` would traverse the whole prompt to convert
        # what is a plain document already, and decode an answer that is not trusted.
        try:
            # The library limits each read: a server that sends byte by byte could take forever.
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
        except openai.APIStatusError as error:
            wait_s = _retry_after_s(error.response.headers, now)
            raise status_error(error.status_code, error.body, wait_s, self._secret) from None
        except (openai.APIConnectionError, TimeoutError) as error:
            raise self._connection_error(error) from None
        except BodyTooLargeError as error:
            raise JudgeCallError(
                Fault.UNREADABLE, str(error), retriable=False, maybe_charged=True
            ) from None
        return answer.content

    def _connection_error(
        self, error: "openai.APIConnectionError | TimeoutError"
    ) -> JudgeCallError:
        import httpx2
        import openai

        cause = error.__cause__
        is_unsent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        if not is_unsent and isinstance(error, openai.APITimeoutError | TimeoutError):
            reason = f"the endpoint sent no complete answer within {self._timeout_s:g} s"
            return JudgeCallError(Fault.TIMEOUT, reason, retriable=True, maybe_charged=True)
        problem = (
            "the endpoint cannot be reached"
            if is_unsent
            else "the endpoint closed the connection before its answer was complete"
        )
        detail = one_line_excerpt(str(cause) or type(cause).__name__, self._secret)
        return JudgeCallError(
            Fault.UNREACHABLE if is_unsent else Fault.CONNECTION,
            f"{problem}: {detail}",
            retriable=True,
            maybe_charged=not is_unsent,
        )


def client_options(base_url: str, api_key: str | None, timeout_s: float) -> dict[str, Any]:
    """Return the arguments of all clients of the library, blocking or not."""
    import httpx2

    return {
        "base_url": base_url,
        "api_key": api_key or _NO_KEY,
        # The size of a compressed answer would be known too late.
        "default_headers": {"Accept-Encoding": "identity"},
        "max_retries": 0,  # retries are decided by the callers
        "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s / 2, _LONGEST_CONNECT_S)),
    }


def connection_options() -> dict[str, Any]:
    """Return the arguments of all connections: transcripts are sent to the configured address."""
    return {"verify": _trusted_certificates(), "follow_redirects": False}


class BodyTooLargeError(Exception):
    """The body of an answer exceeds the limit; the message is for users."""


async def _limit_body(response: "httpx2.Response") -> None:
    """Count the bytes of an answer while it is read."""
    response.stream = limited_stream(response.stream, MAX_BODY_BYTES)


def limited_stream(stream: Any, max_bytes: int) -> Any:
    """Return a stream, blocking or not, that raises ``BodyTooLargeError`` at its limit."""
    import httpx2

    def checked(read: int) -> int:
        if read > max_bytes:
            raise BodyTooLargeError(f"the endpoint sent more than {max_bytes // 1_000_000} MB")
        return read

    class Limited(httpx2.AsyncByteStream, httpx2.SyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for chunk in stream:
                read = checked(read + len(chunk))
                yield chunk

        def __iter__(self) -> Iterator[bytes]:
            read = 0
            for chunk in stream:
                read = checked(read + len(chunk))
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

        def close(self) -> None:
            stream.close()

    return Limited()


@cache
def _trusted_certificates() -> "ssl.SSLContext":
    """Return the certificates to trust; reading them takes longer than a short run of the judge."""
    import httpx2

    return httpx2.create_ssl_context()


def _retry_after_s(headers: Any, now: Callable[[], datetime]) -> float | None:
    """Return the wait in seconds from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if seconds >= 0:  # false for NaN
            return seconds
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max((when - now()).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True)
class RequestForm:
    """How a request is written.

    Attributes:
        limit_name: Field with the longest reply; older servers know ``max_tokens`` only.
        has_temperature: Whether the temperature is sent; some models accept the default only.
        has_system: Whether instructions are a message of their own; otherwise they precede the
            first message of the user.
        streams: Whether the reply is requested as a stream; some servers send nothing else.
    """

    limit_name: str = "max_completion_tokens"
    has_temperature: bool = True
    has_system: bool = True
    streams: bool = False

    def body(
        self,
        model: str,
        messages: Sequence[Message],
        max_output_tokens: int,
        temperature: float | None,
    ) -> dict[str, Any]:
        """Return the body of a request."""
        sent = messages if self.has_system else _without_system(messages)
        body: dict[str, Any] = {
            "model": model,
            "messages": [
                {"role": message.role, "content": storable_text(message.content)}
                for message in sent
            ],
            self.limit_name: max_output_tokens,
        }
        if temperature is not None and self.has_temperature:
            body["temperature"] = temperature
        if self.streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def alternative(self, rejection: str) -> "RequestForm | None":
        """Return the form to try after a rejection; ``None`` if there is no other way.

        Args:
            rejection: What the endpoint wrote.
        """
        for words, change in _ALTERNATIVES:
            if words.search(rejection):
                changed = replace(self, **change)
                return None if changed == self else changed
        return None


_SYSTEM_ROLE = (
    r"\bsystem (?:role|message|prompt|instr)|\brole\b.*\bsystem\b|\broles? must alternate"
)

_ALTERNATIVES: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = tuple(
    (re.compile(words, re.IGNORECASE), change)
    for words, change in (
        (r"\btemperature\b", {"has_temperature": False}),
        (r"\bmax_(?:completion|output)?_?tokens\b", {"limit_name": "max_tokens"}),
        (r"\bstream(?:ing)?\b", {"streams": True}),
        (_SYSTEM_ROLE, {"has_system": False}),
    )
)
"""Words in a rejection, and what to change then."""

_NAMES_FIELD = re.compile(
    r"\b(?:temperature|max_\w*tokens|stream(?:ing|_options)?)\b"
    r"|\b(?:invalid|unknown|unsupported) model\b"
    r"|\bmodel\b.{0,80}\b(?:exist|found|available|supported|required|deprecated)\b",
    re.IGNORECASE,
)


def names_field(rejection: str) -> bool:
    """Return whether a rejection is about a field of every request, not about a session."""
    return _NAMES_FIELD.search(rejection) is not None


def is_about_form(rejection: str) -> bool:
    """Return whether a rejection is about how requests are written, whatever the session."""
    return names_field(rejection) or RequestForm().alternative(rejection) is not None


def names_system_role(answer: str) -> bool:
    """Return whether an answer is about a system message, or about the order of roles."""
    return re.search(_SYSTEM_ROLE, answer, re.IGNORECASE) is not None


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the instructions at the beginning of the first one of the user."""
    first, *rest = messages
    if first.role != "system" or not rest:
        return list(messages)
    return [replace(rest[0], content=f"{first.content}\n\n{rest[0].content}"), *rest[1:]]
