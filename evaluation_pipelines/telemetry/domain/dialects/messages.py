"""Messages of people and models in the attributes of spans.

Libraries write them in a dozen shapes: roles with parts (GenAI conventions, Gemini, Bedrock, AI
SDK), objects of LangChain, responses of providers. The shapes differ in names, not in structure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import text, with_whole_characters

_ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage"), "tool"),
}
_INSIDE = (
    *("messages", "inputs", "input", "contents", "generations", "message", "content"),
    *("output", "outputs", "choices", "update", "prompt", "task", "raw", "response"),
)
"""Fields of an object with messages or text."""

_CALLS = ("tool_call", "tool-call", "function_call", "functionCall", "toolUse", "tool_use")
_RESULTS = (
    *("tool_call_response", "tool-result", "function_response", "functionResponse"),
    *("toolResult", "tool_result"),
)
_CUT = ("[{", '{"')
"""Start of JSON messages that an SDK truncated, so they cannot be parsed."""

_MAX_DEPTH = 8
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Message(NamedTuple):
    """One message: role, text and requested tool calls."""

    role: str
    text: str
    calls: Sequence[Any] = ()


def parsed(value: Any) -> Any:
    """Return the value of a JSON text, or any other value unchanged."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", '"'):
        return value
    try:
        return _decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return _leniently(value)


def _leniently(document: str) -> Any:
    try:
        return with_whole_characters(json.loads(document))
    except (ValueError, RecursionError):
        return document


def parsed_object(value: Any) -> dict[str, Any]:
    """Return the object in a JSON text, or an empty dict."""
    found = parsed(value)
    return found if isinstance(found, dict) else {}


def newest_first(value: Any, role: str) -> Iterator[Message]:
    """Yield the messages in a value, the last one first. Plain text is a message of ``role``."""
    sent = parsed(value)
    if isinstance(sent, str):
        if sent and not sent.startswith(_CUT):
            yield Message(role, sent)
    else:
        yield from _messages(sent, 0)


def flat_message(attributes: Mapping[str, Any], prefix: str) -> Iterator[Message]:
    """Yield the last message with an attribute per field: ``PREFIX0.message.content``."""
    sent = {key[len(prefix) :]: key for key in attributes if key.startswith(prefix)}
    numbers = [int(n) for key in sent if (n := key.partition(".")[0]).isdecimal()]
    if not numbers:
        return
    start, role, texts = f"{max(numbers)}.", "", list[str]()
    calls: dict[str, dict[str, Any]] = {}
    for field, key in sent.items():
        if not field.startswith(start):
            continue
        name, value = field.removeprefix(start).removeprefix("message."), attributes[key]
        if name == "role":
            role = str(value)
        elif name == "content" or name.endswith("message_content.text"):
            texts.append(text(value) or "")
        elif name.startswith("tool_calls."):
            which, _, inner = name.removeprefix("tool_calls.").partition(".")
            inner = inner.removeprefix("tool_call.").removeprefix("function.")
            calls.setdefault(which, {})[inner] = value
    role = _ROLES.get(role, role)
    yield Message(role, "\n".join(dict.fromkeys(filter(None, texts))), list(calls.values()))


def last_prompt(newest_first: Iterable[Message]) -> str | None:
    """Return the last text of the user."""
    return next((message.text for message in newest_first if _is_prompt(message)), None)


def open_prompt(newest_first: Iterable[Message]) -> str | None:
    """Return the last text of the user if no answer follows."""
    last = next(iter(newest_first), None)
    return last.text if last is not None and _is_prompt(last) else None


def last_reply(newest_first: Iterable[Message]) -> str | None:
    """Return the last text of the model, or else its tool calls as JSON."""
    reply = next(
        (message for message in newest_first if message.role not in {"user", "system"}), None
    )
    if reply is None:
        return None
    if reply.text:
        return reply.text
    return _encode({"tool_calls": reply.calls}).decode() if reply.calls else None


def plain_text(value: Any) -> str | None:
    """Return the text of a result, or other values as JSON."""
    sent = parsed(value)
    if sent is None or isinstance(sent, str):
        return sent or None
    found = next((message.text for message in _messages(sent, 0) if message.text), None) or _text(
        sent
    )
    return found or (value if isinstance(value, str) else _encode(sent).decode())


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and bool(message.text.strip())


def _messages(value: Any, level: int) -> Iterator[Message]:
    if level > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in reversed(value):
            yield from _messages(item, level + 1)
    elif isinstance(value, dict):
        message = _message(value)
        if message is not None:
            yield message
            return
        for name in _INSIDE:
            inner = value.get(name)
            if isinstance(inner, str) and inner and name in ("prompt", "task", "raw", "input"):
                yield Message("assistant" if name == "raw" else "user", inner)
                return
            if isinstance(inner, dict | list) and inner:
                yield from _messages(inner, level + 1)
                return


def _message(value: dict[str, Any]) -> Message | None:
    """Return an object as a message, or None."""
    inner, name = value, value.get("role")
    if not name:
        data = value.get("kwargs") or value.get("data")
        inner = data if isinstance(data, dict) and "content" in data else value
        name = inner.get("role") or inner.get("type") or value.get("type")
    if name == "constructor" or inner.get("type") == "constructor":
        path = value.get("id")
        name = path[-1] if isinstance(path, list) and path else None
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        return None
    content = inner.get("parts", inner.get("content", inner.get("contents")))
    calls = [*_calls(content), *_listed(inner.get("tool_calls"))]
    return Message("tool" if _is_result(content) else role, _text(content), calls)


def _is_result(content: Any) -> bool:
    parts = [part for part in _listed(content) if isinstance(part, dict)]
    return bool(parts) and all(_kind(part) in _RESULTS for part in parts)


def _calls(content: Any) -> list[Any]:
    parts = (part for part in _listed(content) if isinstance(part, dict))
    return [part for part in parts if _kind(part) in _CALLS]


def _kind(part: dict[str, Any]) -> Any:
    """Return the type of a part: a field, or the name of the only field."""
    kind = part.get("type")
    return kind if kind is not None else next((name for name in part if name != "text"), None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(content: Any) -> str:
    """Return the text of a message from its content or parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = content.get("parts") or [content]
    texts = [_part_text(part) for part in _listed(content)]
    return "\n".join(text for text in texts if text)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type") not in (None, "text", "output_text"):
        return ""
    return next((v for n in ("text", "content") if isinstance(v := part.get(n), str)), "")
