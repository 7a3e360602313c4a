"""What an OpenAI-compatible endpoint sends back, read without trusting it."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.endpoint.errors import Fault, JudgeCallError

_SHOWN = 200
# Every server has words of its own for it.
_TOO_LONG = (
    "context_length",
    "context length",
    "context size",
    "context window",
    "model context",
    "too long",
    "reduce the length",
    "maximum number of tokens",
)
# Whatever is asked, the answer would be the same.
_MISCONFIGURED = frozenset((401, 402, 404, 405))
_RETRIED = frozenset((408, 409, 429))

# More tokens than that are no count, and no column of a database holds them.
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: Any = None


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _Details | None = None


@dataclass(frozen=True, slots=True)
class ParsedCompletion:
    """A reply, and its tokens where the endpoint tells them."""

    reply: Reply
    usage: Usage | None


def read_completion(content: bytes) -> ParsedCompletion:
    """The body of an answer with status 200.

    A refusal is a reply with the finish reason ``refusal``. Its text is sound (``sound_text``).

    Raises:
        JudgeCallError: it is no chat completion, or an error in spite of its status.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise _unreadable(f"is no JSON but begins with {shown(content)!r}") from None
    error = document.get("error") if isinstance(document, dict) else None
    if error:
        raise _hidden_error(error)
    try:
        completion = msgspec.convert(document, _Completion)
    except msgspec.ValidationError as fault:
        raise _unreadable(f"is no chat completion: {fault}") from None
    first = completion.choices[0]
    reason = "refusal" if first.message.refusal else first.finish_reason or "unknown"
    text = first.message.content or first.message.refusal or ""
    return ParsedCompletion(Reply(sound_text(text), shown(reason)), _usage(completion.usage))


def status_error(
    status: int, body: object, retry_after_s: float | None, secret: str | None
) -> JudgeCallError:
    """The error for an answer with another status than 200.

    Args:
        status: HTTP status.
        body: What came with it: decoded JSON, or text.
        retry_after_s: What its ``Retry-After`` says.
        secret: The key: an endpoint may repeat it.
    """
    said = shown(_message(body), secret)
    what = f"the endpoint answered {status}" + (f": {said}" if said else "")
    code = str(body.get("code") or body.get("type") or "") if isinstance(body, dict) else ""
    if status in _MISCONFIGURED or 300 <= status < 400 or code == "insufficient_quota":
        advice = "check OPENAI_BASE_URL, OPENAI_API_KEY, EVAL_JUDGE_MODEL and the account"
        return JudgeCallError(
            Fault.MISCONFIGURED, f"{what}; {advice}", retriable=False, status=status
        )
    if status in _RETRIED or status >= 500:
        return JudgeCallError(
            Fault.RATE_LIMITED if status == 429 else Fault.SERVER_ERROR,
            what,
            retriable=True,
            status=status,
            # A gateway may give up on a model that goes on writing.
            maybe_charged=status >= 500 or status == 408,
            retry_after_s=retry_after_s,
        )
    return JudgeCallError(_rejection(status, code, said), what, retriable=False, status=status)


def shown(text: bytes | str, secret: str | None = None) -> str:
    """The beginning of what an endpoint sent, in one line, without the key."""
    if isinstance(text, bytes):
        text = text[: 8 * _SHOWN].decode(errors="replace")
    if secret:
        text = text.replace(secret, "[key]")
    line = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(line.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ..."


def sound_text(text: str) -> str:
    """The text with what UTF-8 and databases do not take (half characters, NUL) replaced."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _message(body: object) -> str:
    if isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail") or body
    return body if isinstance(body, str) else "" if body is None else json.dumps(body, default=str)


def _rejection(status: int, code: str, said: str) -> Fault:
    words = f"{code} {said}".lower()
    if any(each in words for each in ("content_filter", "content_policy", "content management")):
        return Fault.CONTENT_FILTER
    if status == 413 or any(each in words for each in _TOO_LONG):
        return Fault.TOO_LONG
    return Fault.REJECTED


def _hidden_error(error: object) -> JudgeCallError:
    """Gateways report errors of the model behind them with status 200."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return status_error(code, error, None, None)
    return _unreadable(f"holds an error: {shown(_message(error))}")


def _unreadable(what: str) -> JudgeCallError:
    return JudgeCallError(
        Fault.UNREADABLE,
        f"the endpoint answered 200, but the answer {what}",
        retriable=True,
        status=200,
        maybe_charged=True,
    )


def _usage(told: object) -> Usage | None:
    try:
        usage = msgspec.convert(told, _Usage)
    except msgspec.ValidationError:
        return None  # the reply is good, and unknown tokens are unknown
    details = usage.prompt_tokens_details or _Details()
    cached = min(details.cached_tokens or 0, usage.prompt_tokens)
    uncached = usage.prompt_tokens - cached
    written = min(details.cache_write_tokens or 0, uncached)
    return Usage(uncached, cached, usage.completion_tokens, written)
