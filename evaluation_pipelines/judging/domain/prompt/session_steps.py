"""Steps of a session, described in the same words for every agent.

Gemini CLI and its forks log the body of each request and response. A reply is a list of chunks. The
result of a tool is only in the following request, together with the conversation up to then.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import OFFERED_TOOLS, json_object

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
        for child in node:
            yield from _reply_texts(child, depth + 1)
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
        for child in node:
            yield from _results(child, depth + 1)
    elif isinstance(node, dict):
        result = _result(node)
        if result is not None:
            yield result
        else:
            for child in node.values():
                yield from _results(child, depth + 1)


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


_MAX_CHARACTERS = 20_000_000
"""Limit on the text of requests that is read, latest first: each repeats the ones before it."""


def results_from_requests(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Find the texts of tool results in later requests to the model.

    A result is matched by the id of its call. If the events of a tool have no id, its results are
    assigned to its calls in order, but only if there are as many results as calls: a wrong result
    would be false evidence.

    Args:
        rows: Rows of ``agent_events`` in their order.

    Returns:
        Text of the result by index of its ``tool_result`` event in ``rows``.
    """
    without_text = {
        index: row
        for index, row in enumerate(rows)
        if row["event_name"] == "tool_result" and row["content"] is None
    }
    if not without_text:
        return {}
    results = _all_results(rows)
    by_id = {result.id: result.text for result in results}
    found = {
        index: by_id[row["tool_use_id"]]
        for index, row in without_text.items()
        if row["tool_use_id"] in by_id
    }
    without_id = {index: row for index, row in without_text.items() if row["tool_use_id"] is None}
    return found | _matched_by_order(without_id, results)


def _all_results(rows: Sequence[Mapping[str, Any]]) -> list[LoggedToolResult]:
    """Return the results in all requests, each once, in their order."""
    collected: list[LoggedToolResult] = []
    seen: set[str] = set()
    characters = 0
    for row in reversed(rows):
        if row["event_name"] != "other" or not row["content"] or characters > _MAX_CHARACTERS:
            continue
        characters += len(row["content"])
        new = {
            result.id: result
            for result in logged_tool_results(row["content"])
            if result.id not in seen
        }
        collected = [*new.values(), *collected]
        seen |= new.keys()
    return collected


def _matched_by_order(
    without_id: Mapping[int, Mapping[str, Any]], results: Iterable[LoggedToolResult]
) -> dict[int, str]:
    texts: defaultdict[str | None, list[str]] = defaultdict(list)
    for result in results:
        texts[result.name].append(result.text)
    calls: defaultdict[str | None, list[int]] = defaultdict(list)
    for index, row in without_id.items():
        calls[row["tool_name"]].append(index)
    return {
        index: text
        for name, indexes in calls.items()
        if len(indexes) == len(texts.get(name, ()))
        for index, text in zip(indexes, texts[name], strict=True)
    }


Row = Mapping[str, Any]

_PLAIN_NAME = re.compile(r"[\w.:/@-]+(?: [\w.:/@-]+)?")

# Internal calls of the program; their answers are not words of the agent.
_SIDE_CALLS = ("utility", "generate_session_title", "prompt_suggestion")


@dataclass(frozen=True, slots=True)
class StepText:
    """A text of a step.

    Attributes:
        label: Kind of the text; empty if the title of the step says it.
        text: The text as logged.
        is_tool_text: Whether it is parameters or a result; these are truncated first.
        is_json: Whether it is parameters as JSON.
    """

    label: str
    text: str
    is_tool_text: bool = False
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class SessionStep:
    """A step of a session.

    Attributes:
        kind: ``prompt``, ``reply``, ``tool``, ``failure`` or ``note``.
        seconds: Time since the first event of the session.
        title: Event in one line; contains names as sent.
        parts: Texts of the step, in order.
        not_logged: Texts that were not logged, such as ``result (37 bytes)``.
        is_failure: Whether something failed or was refused; such steps are never omitted.
    """

    kind: str
    seconds: float
    title: str
    parts: tuple[StepText, ...] = ()
    not_logged: tuple[str, ...] = ()
    is_failure: bool = False


def session_steps(rows: Sequence[Row]) -> list[SessionStep]:
    """Return the steps of a session window.

    No step names the model, the agent or the masque.

    Args:
        rows: Rows of ``agent_events`` in their order.
    """
    if not rows:
        return []
    start = rows[0]["event_time"]
    results = results_from_requests(rows)
    answered = {row["tool_use_id"] for row in rows if row["event_name"] == "tool_result"}
    steps = []
    for index, row in enumerate(rows):
        seconds = (row["event_time"] - start).total_seconds()
        if row["event_name"] == "tool_result":
            steps.append(_tool(row, seconds, row["content"] or results.get(index)))
        elif row["event_name"] == "tool_decision":
            steps += _decision(row, seconds, answered)
        elif row["event_name"] in _STEPS:
            steps += _STEPS[row["event_name"]](row, seconds)
    return steps


def offered_tools(rows: Iterable[Row]) -> list[str]:
    """Return the names of the tools that the agent could use, as far as calls to the model say."""
    sent = {row["attributes"]: None for row in rows if OFFERED_TOOLS in (row["attributes"] or "")}
    lists = [json_object(text).get(OFFERED_TOOLS) for text in sent]
    names = [name for value in lists if isinstance(value, str) for name in value.split(", ")]
    return list(dict.fromkeys(names))


def _prompt(row: Row, seconds: float) -> Iterator[SessionStep]:
    yield _text_step(
        "prompt", f"PROMPT{_subagent(row)}", row, seconds, row["content"], "prompt_length"
    )


def _reply(row: Row, seconds: float) -> Iterator[SessionStep]:
    if not (row["query_source"] or "").startswith(_SIDE_CALLS):
        title = "SUMMARY of the conversation" if row["query_source"] == "compact" else "REPLY"
        text = reply_text(row["content"]) if row["content"] else None
        yield _text_step("reply", f"{title}{_subagent(row)}", row, seconds, text, "response_length")


def _request(row: Row, seconds: float) -> Iterator[SessionStep]:
    """Yield a reply if the call to the model was logged with the words of its reply."""
    if row["content"] and reply_text(row["content"]):
        yield from _reply(row, seconds)


def _tool(row: Row, seconds: float, result: str | None) -> SessionStep:
    outcome = {True: "ok", False: "FAILED", None: "outcome unknown"}[row["success"]]
    facts = [outcome]
    if row["exit_code"]:
        facts.append(f"exit code {row['exit_code']}")
    if row["error_type"]:
        facts.append(_quoted(row["error_type"]))
    if row["duration_ms"] is not None:
        facts.append(_duration(row["duration_ms"]))
    texts = _call_texts(row)
    not_logged: list[str] = []
    if result and result != row["error"]:
        texts += (StepText("result", result, is_tool_text=True),)
    if not row["tool_parameters"]:
        not_logged.append(_size(row, "parameters", "tool_input_size_bytes", "bytes"))
    # A call that failed has an error in place of a result.
    if not (result or row["error"]):
        not_logged.append(_size(row, "result", "tool_result_size_bytes", "bytes"))
    return SessionStep(
        "tool",
        seconds,
        f"{_call_title(row)}: {', '.join(facts)}",
        texts,
        tuple(not_logged),
        is_failure=row["success"] is False,
    )


def _decision(row: Row, seconds: float, answered: set[str | None]) -> Iterator[SessionStep]:
    title, texts = _call_title(row), _call_texts(row)
    if row["decision"] == "reject":
        source = str(json_object(row["attributes"]).get("source", ""))
        by_user = " by the user" if source.startswith("user") else ""
        yield SessionStep("tool", seconds, f"{title}: REFUSED{by_user}", texts, is_failure=True)
    elif row["tool_use_id"] and row["tool_use_id"] not in answered:
        yield SessionStep("tool", seconds, f"{title}: allowed, no result recorded", texts)


def _call_title(row: Row) -> str:
    name = row["tool_name"]
    return f"TOOL {_quoted(name) if name else 'without a name'}{_subagent(row)}"


def _quoted(name: str) -> str:
    """Return a logged name for a title; in quotes if it can be mistaken for the rest of it."""
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _call_texts(row: Row) -> tuple[StepText, ...]:
    error, parameters = row["error"], row["tool_parameters"]
    texts = [
        StepText("parameters", parameters, is_tool_text=True, is_json=True) if parameters else None,
        StepText("error", error) if error else None,
    ]
    return tuple(text for text in texts if text)


def _model_failure(row: Row, seconds: float) -> Iterator[SessionStep]:
    refused = row["event_name"] == "api_refusal"
    title = "THE MODEL REFUSED TO ANSWER" if refused else "A CALL TO THE MODEL FAILED"
    yield _failure(row, seconds, title)


def _compaction(row: Row, seconds: float) -> Iterator[SessionStep]:
    title = "COMPACTION of the conversation, to make room"
    if row["success"] is False:
        yield _failure(row, seconds, f"{title}: FAILED")
    else:
        yield SessionStep("note", seconds, title)


def _hook(row: Row, seconds: float) -> Iterator[SessionStep]:
    if row["success"] is False:
        yield _failure(row, seconds, "A HOOK FAILED")


def _other(row: Row, seconds: float) -> Iterator[SessionStep]:
    """Yield steps for events without a canonical name that show how the work went."""
    match row["source_event_name"]:
        case "user_prompt":
            yield _text_step("note", "COMMAND to the program", row, seconds, row["content"], "")
        case "loop_detected":
            yield SessionStep("note", seconds, "THE PROGRAM NOTICED A LOOP", is_failure=True)
        case "api_retries_exhausted":
            yield _failure(row, seconds, "CALLS TO THE MODEL GIVEN UP")
        case "api_request" if row["success"] is False:
            yield _failure(row, seconds, "A CALL TO THE MODEL FAILED")


_STEPS: dict[str, Callable[[Row, float], Iterator[SessionStep]]] = {
    "user_prompt": _prompt,
    "assistant_response": _reply,
    "api_request": _request,
    "api_error": _model_failure,
    "api_refusal": _model_failure,
    "compaction": _compaction,
    "hook": _hook,
    "other": _other,
}


def _text_step(
    kind: str, title: str, row: Row, seconds: float, text: str | None, length_attribute: str
) -> SessionStep:
    if text:
        return SessionStep(kind, seconds, title, (StepText("", text),))
    return SessionStep(
        kind, seconds, title, (), (_size(row, "text", length_attribute, "characters"),)
    )


def _failure(row: Row, seconds: float, title: str) -> SessionStep:
    error_type = f" ({_quoted(row['error_type'])})" if row["error_type"] else ""
    parts = (StepText("", row["error"]),) if row["error"] else ()
    return SessionStep("failure", seconds, f"{title}{error_type}", parts, is_failure=True)


def _size(row: Row, name: str, attribute: str, unit: str) -> str:
    """Return the name of a text that was not logged, with its size if that was logged."""
    size = json_object(row["attributes"]).get(attribute)
    return f"{name} ({size} {unit})" if str(size).isdigit() else name


def _subagent(row: Row) -> str:
    """Mark the work of a subagent; its name would reveal the agent."""
    return " (subagent)" if row["subagent"] else ""


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
