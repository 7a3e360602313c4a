"""Texts inside the JSON that some agents log: replies of models, and results of tools.

Gemini CLI and its kin log what went over the wire. A reply is a list of chunks, and the result of a
tool stands only in the request that followed it, together with the whole conversation before.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Deeper than any of the formats below; what is deeper was made to do harm.
_DEEPEST = 12
_REPLY_PARTS = ("candidates", "choices", "message", "content", "parts")
_CUT_TEXT = re.compile(r'"text": ?("(?:[^"\\]|\\.){0,100000}")')


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answered: id of the call, name of the tool where told, and the text."""

    id: str
    name: str | None
    text: str


def reply_text(content: str) -> str | None:
    """The words of a reply; None when it only called tools.

    Args:
        content: Plain text, or JSON of Gemini, OpenAI or the OpenTelemetry conventions; it may have
            been cut off at the end.
    """
    if not content.lstrip().startswith(("{", "[")):
        return content
    document = _parsed(content)
    if document is None:
        texts = [_unquoted(found[1]) for found in _CUT_TEXT.finditer(content)]
        return "".join(texts) or (None if '"candidates"' in content[:200] else content)
    if not _is_reply(document):
        return content
    return "".join(_reply_texts(document, 0)) or None


def tool_answers(body: str) -> list[ToolAnswer]:
    """All results of tools in the body of a request, in their order; none when it was cut off."""
    document = _parsed(body)
    return [] if document is None else list(_answers(document, 0))


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
    if depth > _DEEPEST:
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


def _answers(node: Any, depth: int) -> Iterator[ToolAnswer]:
    if depth > _DEEPEST:
        return
    if isinstance(node, list):
        for each in node:
            yield from _answers(each, depth + 1)
    elif isinstance(node, dict):
        answer = _answer(node)
        if answer is not None:
            yield answer
        else:
            for each in node.values():
                yield from _answers(each, depth + 1)


def _answer(node: Mapping[str, Any]) -> ToolAnswer | None:
    """The result that a node of a request is, as Gemini, Anthropic or OpenAI word it."""
    response = node.get("functionResponse")
    if isinstance(response, dict):
        given = response.get("response")
        output = (
            given.get("output", given.get("error", given)) if isinstance(given, dict) else given
        )
        return _tool_answer(response.get("id"), response.get("name"), output)
    if node.get("type") == "tool_result":
        return _tool_answer(node.get("tool_use_id"), None, node.get("content"))
    if node.get("role") == "tool":
        return _tool_answer(node.get("tool_call_id"), None, node.get("content"))
    return None


def _tool_answer(call_id: Any, name: Any, output: Any) -> ToolAnswer | None:
    if not isinstance(call_id, str):
        return None
    text = output if isinstance(output, str) else "".join(_reply_texts(output, 0))
    return ToolAnswer(call_id, name if isinstance(name, str) else None, text or json.dumps(output))
