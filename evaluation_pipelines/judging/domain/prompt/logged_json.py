"""Texts in the JSON that some agents log: replies of models and results of tools.

Gemini CLI and its forks log the body of each request and response. A reply is a list of chunks. The
result of a tool is only in the following request, together with the conversation up to then.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# No format below is nested deeper; deeper JSON is hostile.
_MAX_DEPTH = 12
_REPLY_PARTS = ("candidates", "choices", "message", "content", "parts")
_TEXT_FIELD = re.compile(r'"text": ?("(?:[^"\\]|\\.){0,100000}")')


@dataclass(frozen=True, slots=True)
class LoggedToolResult:
    """Result of a tool: id of the call, name of the tool (``None`` if unknown), and the text."""

    id: str
    name: str | None
    text: str


def reply_text(content: str) -> str | None:
    """Return the words of a reply; ``None`` if it only calls tools.

    Args:
        content: Plain text, or JSON of Gemini, OpenAI or the OpenTelemetry conventions, which may
            be truncated.
    """
    if not content.lstrip().startswith(("{", "[")):
        return content
    document = _parsed(content)
    if document is None:
        texts = [_unquoted(found[1]) for found in _TEXT_FIELD.finditer(content)]
        return "".join(texts) or (None if '"candidates"' in content[:200] else content)
    if not _is_reply(document):
        return content
    return "".join(_reply_texts(document, 0)) or None


def logged_tool_results(body: str) -> list[LoggedToolResult]:
    """Return all tool results in the body of a request; none if the body is truncated."""
    document = _parsed(body)
    return [] if document is None else list(_results(document, 0))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unquoted(quoted: str) -> str:
    return str(_parsed(quoted) or "")


def _is_reply(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and not first.keys().isdisjoint(_REPLY_PARTS)


def _reply_texts(node: Any, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, list):
        for each in node:
            yield from _reply_texts(each, depth + 1)
    elif isinstance(node, dict) and node.get("thought") is not True:
        text = node.get("text", node.get("content"))
        if isinstance(text, str):
            yield text
        else:
            for part in _REPLY_PARTS:
                yield from _reply_texts(node.get(part), depth + 1)


def _results(node: Any, depth: int) -> Iterator[LoggedToolResult]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, list):
        for each in node:
            yield from _results(each, depth + 1)
    elif isinstance(node, dict):
        result = _result(node)
        if result is not None:
            yield result
        else:
            for each in node.values():
                yield from _results(each, depth + 1)


def _result(node: Mapping[str, Any]) -> LoggedToolResult | None:
    """Read a node in the form of Gemini, Anthropic or OpenAI; ``None`` if it is not a result."""
    response = node.get("functionResponse")
    if isinstance(response, dict):
        body = response.get("response")
        output = body.get("output", body.get("error", body)) if isinstance(body, dict) else body
        return _tool_result(response.get("id"), response.get("name"), output)
    if node.get("type") == "tool_result":
        return _tool_result(node.get("tool_use_id"), None, node.get("content"))
    if node.get("role") == "tool":
        return _tool_result(node.get("tool_call_id"), None, node.get("content"))
    return None


def _tool_result(call_id: Any, name: Any, output: Any) -> LoggedToolResult | None:
    if not isinstance(call_id, str):
        return None
    text = output if isinstance(output, str) else "".join(_reply_texts(output, 0))
    tool = name if isinstance(name, str) else None
    return LoggedToolResult(call_id, tool, text or json.dumps(output))
