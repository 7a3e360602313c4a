"""Replies sent as a stream of server-sent events, joined to one completion."""

import json
from collections.abc import Iterator
from typing import Any

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
        return "".join(_text(each.get("text")) for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""
