"""Answers of an endpoint: completions, streams, and errors with their cause."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from evaluation_pipelines.judging.domain.budget import Usage
from evaluation_pipelines.judging.domain.prompt.messages import Reply, without_thinking


class Fault(StrEnum):
    """Kind of a failure; ``UNREACHABLE``: nothing was sent, ``CONNECTION``: it broke later."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    UNREACHABLE = "unreachable"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNREADABLE = "unreadable_answer"
    CONTENT_FILTER = "content_filter"
    TOO_LONG = "too_long"
    REJECTED = "rejected"
    MISCONFIGURED = "misconfigured"


class JudgeCallError(Exception):
    """A call failed after its retries.

    Attributes:
        fault: Kind of the failure.
        reason: A sentence for users; contains neither the key nor the prompt.
        retriable: True if the same call may succeed later.
        maybe_charged: True if the last request may have been charged.
        retry_after_s: Wait that the endpoint asks for; ``None`` if it does not say.
    """

    def __init__(
        self,
        fault: Fault,
        reason: str,
        *,
        retriable: bool,
        maybe_charged: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason
        self.retriable = retriable
        self.maybe_charged = maybe_charged
        self.retry_after_s = retry_after_s

    @property
    def cost_usd(self) -> float | None:
        """Cost of the last request: 0 if it was certainly not charged, otherwise unknown."""
        return None if self.maybe_charged else 0.0


class BudgetReachedError(Exception):
    """A call failed and its retry does not fit into the budget; the session stays due.

    The cost of the failed request is already booked.
    """

    cost_usd = 0.0


_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")


def is_stream(content: bytes) -> bool:
    """Return whether a body is a stream of server-sent events."""
    return content.lstrip().startswith(_FIELDS)


def join_stream(content: bytes) -> dict[str, Any]:
    """Return a stream as the document of a completion that is not streamed.

    The finish reason is ``error`` if the stream ends without one.

    Raises:
        ValueError: An event is not a JSON object.
    """
    texts: list[str] = []
    refusals: list[str] = []
    finish_reason, usage = None, None
    for chunk in _chunks(content):
        if chunk.get("error"):
            return {"error": chunk["error"]}
        usage = chunk.get("usage") or usage
        choice = _object(_first(chunk.get("choices")))
        delta = _object(choice.get("delta") or choice.get("message"))
        texts.append(_text(delta.get("content")))
        refusals.append(_text(delta.get("refusal")))
        finish_reason = choice.get("finish_reason") or finish_reason
    message = {"content": "".join(texts), "refusal": "".join(refusals) or None}
    choice = {"message": message, "finish_reason": finish_reason or "error"}
    return {"choices": [choice], "usage": usage}


def _chunks(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data != b"[DONE]":
            chunk = json.loads(data)
            if not isinstance(chunk, dict):
                raise ValueError("an event is not an object")
            yield chunk


def _first(items: Any) -> Any:
    return items[0] if isinstance(items, list) and items else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


CHARACTERS_PER_TOKEN = 16
"""More than any tokenizer needs: a longer reply ignores the limit of its tokens."""

_EXCERPT_CHARACTERS = 200
# Each server words this error in its own way.
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window|limit)|model context|max(?:imum)?[ _]model[ _]len"
    r"|too long|reduce the length|maximum number of tokens|too many tokens|model token limit"
    r"|(?:input|prompt) (?:length|tokens? (?:count|exceed)|\(?\d+ tokens)|number of input tokens"
    r"|`inputs` (?:tokens \+|must have less)|expected maxlength"
    r"|(?:request|payload|prompt|input|body)(?: \w+)? (?:is )?too large|payload size exceeds",
    re.IGNORECASE,
)
# Every request would get the same answer.
_MISCONFIGURED = frozenset((401, 402, 403, 404, 405))
_FILTERED = ("content_filter", "content_policy", "content management", "moderation", "flagged")
_TEXT_PARTS = frozenset(("text", "output_text"))
_RETRIED = frozenset((408, 409, 429))

# A larger number is not a token count, and no database column can store it.
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class _Part(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None
    type: str = "text"


class _Message(msgspec.Struct):
    content: str | list[_Part | str] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        """The answer; a server may send it in parts, those of its thoughts included."""
        if not isinstance(self.content, list):
            return self.content or ""
        parts = [_Part(part) if isinstance(part, str) else part for part in self.content]
        return "".join(part.text or "" for part in parts if part.type in _TEXT_PARTS)

    @property
    def refused(self) -> str | None:
        """The text of a refusal; ``None`` if the model answered."""
        parts = self.content if isinstance(self.content, list) else []
        found = [part.refusal for part in parts if isinstance(part, _Part) and part.refusal]
        return self.refusal or (found[0] if found else None)


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: Any = None


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Count
    completion_tokens: _Count
    total_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _OutputDetails | None = None

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning; 0 if they are not reported."""
        found = self.completion_tokens_details or _OutputDetails()
        return found.reasoning_tokens or 0

    @property
    def has_reasoning_apart(self) -> bool:
        """Whether ``completion_tokens`` leaves the reasoning out, unlike that of OpenAI."""
        apart = self.prompt_tokens + self.completion_tokens + self.reasoning_tokens
        return self.reasoning_tokens > self.completion_tokens or self.total_tokens == apart


@dataclass(frozen=True, slots=True)
class ParsedCompletion:
    """A reply and its tokens; ``usage`` is ``None`` if the endpoint does not report them."""

    reply: Reply
    usage: Usage | None


def read_completion(content: bytes, max_characters: int, secret: str | None) -> ParsedCompletion:
    """Parse the body of an answer with status 200: a chat completion, or a stream of its parts.

    A refusal is a reply with the finish reason ``refusal``. The text has passed ``storable_text``
    and ``without_thinking``. A text longer than ``max_characters`` is cut, with the finish reason
    ``length``. The API key ``secret`` is removed from everything: an endpoint may repeat it.

    Raises:
        JudgeCallError: The body is not a chat completion, or it contains an error.
    """
    try:
        document = join_stream(content) if is_stream(content) else json.loads(content)
    except (ValueError, RecursionError):
        begin = one_line_excerpt(content, secret)
        raise _unreadable(f"is not JSON. It starts with {begin!r}") from None
    error = document.get("error") if isinstance(document, dict) else None
    if error:
        raise _error_in_body(error, secret)
    try:
        completion = msgspec.convert(document, _Completion)
    except msgspec.ValidationError as fault:
        reason = one_line_excerpt(str(fault), secret)
        raise _unreadable(f"is not a chat completion: {reason}") from None
    first = completion.choices[0]
    refused = first.message.refused
    reason = "refusal" if refused else first.finish_reason or "unknown"
    text = without_thinking(first.message.text) or refused or ""
    text = _without_key(text, secret)
    if len(text) > max_characters:
        text, reason = text[:max_characters], "length"
    reply = Reply(storable_text(text), one_line_excerpt(reason, secret))
    return ParsedCompletion(reply, _parse_usage(completion.usage))


def status_error(
    status: int, body: object, retry_after_s: float | None, secret: str | None
) -> JudgeCallError:
    """Return the error for an answer with a status other than 200.

    Args:
        status: HTTP status.
        body: Body of the answer: decoded JSON, or text.
        retry_after_s: Seconds of its ``Retry-After`` header.
        secret: The API key, which is removed: an endpoint may repeat it.
    """
    message = one_line_excerpt(_message(body), secret)
    reason = f"the endpoint answered {status}" + (f": {message}" if message else "")
    code = str(body.get("code") or body.get("type") or "") if isinstance(body, dict) else ""
    rejection = _rejection(status, code, message)
    is_filtered = status == 403 and rejection is Fault.CONTENT_FILTER
    is_general = status in _MISCONFIGURED or 300 <= status < 400 or code == "insufficient_quota"
    if is_general and not is_filtered:
        advice = "check OPENAI_BASE_URL, OPENAI_API_KEY, EVAL_JUDGE_MODEL and the account"
        return JudgeCallError(Fault.MISCONFIGURED, f"{reason}; {advice}", retriable=False)
    if status in _RETRIED or status >= 500:
        return JudgeCallError(
            Fault.RATE_LIMITED if status == 429 else Fault.SERVER_ERROR,
            reason,
            retriable=True,
            # A gateway may time out while the model still generates.
            maybe_charged=status >= 500 or status == 408,
            retry_after_s=retry_after_s,
        )
    return JudgeCallError(rejection, reason, retriable=False)


def one_line_excerpt(text: bytes | str, secret: str | None = None) -> str:
    """Return the first 200 printable characters of an answer on one line, without the key."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    # Before it is cut: a part of the key would not be found.
    text = _without_key(text, secret)[: 8 * _EXCERPT_CHARACTERS]
    line = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(line.split())
    return line if len(line) <= _EXCERPT_CHARACTERS else f"{line[:_EXCERPT_CHARACTERS]} ..."


def _without_key(text: str, secret: str | None) -> str:
    return text.replace(secret, "[key]") if secret else text


def storable_text(text: str) -> str:
    """Replace the characters that UTF-8 or databases reject: lone surrogates and NUL."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _message(body: object) -> str:
    if isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail") or body
    return body if isinstance(body, str) else "" if body is None else json.dumps(body, default=str)


def _rejection(status: int, code: str, message: str) -> Fault:
    words = f"{code} {message}".lower()
    if any(word in words for word in _FILTERED):
        return Fault.CONTENT_FILTER
    if status == 413 or _TOO_LONG.search(words):
        return Fault.TOO_LONG
    return Fault.REJECTED


def _error_in_body(error: object, secret: str | None) -> JudgeCallError:
    """Return the error of an upstream model, which gateways report with status 200."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return status_error(code, error, None, secret)
    return _unreadable(f"contains an error: {one_line_excerpt(_message(error), secret)}")


def _unreadable(problem: str) -> JudgeCallError:
    return JudgeCallError(
        Fault.UNREADABLE,
        f"the endpoint answered 200, but the answer {problem}",
        retriable=True,
        maybe_charged=True,
    )


def _parse_usage(raw: object) -> Usage | None:
    try:
        usage = msgspec.convert(raw, _Usage)
    except msgspec.ValidationError:
        return None  # the reply is usable without its token counts
    details = usage.prompt_tokens_details or _Details()
    cached = min(details.cached_tokens or 0, usage.prompt_tokens)
    uncached = usage.prompt_tokens - cached
    written = min(details.cache_write_tokens or 0, uncached)
    reasoning = usage.reasoning_tokens
    output = usage.completion_tokens + (reasoning if usage.has_reasoning_apart else 0)
    return Usage(uncached, cached, output, written, reasoning)
