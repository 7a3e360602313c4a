"""What happened in a session, step by step, in words that fit every agent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.judging.domain.prompt.logged_json import reply_text
from evaluation_pipelines.judging.domain.prompt.tool_results import results_from_requests
from evaluation_pipelines.telemetry.domain.attributes import json_object

Row = Mapping[str, Any]

# Calls that the program makes for its own ends; what they answer is none of the agent's words.
_SIDE_CALLS = ("utility", "generate_session_title", "prompt_suggestion")


@dataclass(frozen=True, slots=True)
class StepText:
    """A text of a step.

    Attributes:
        label: What it is; empty when the step's title says it.
        text: As logged.
        is_tool_text: Parameters or a result: long ones are the first to be cut.
        is_json: Parameters, as JSON.
    """

    label: str
    text: str
    is_tool_text: bool = False
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class SessionStep:
    """One thing that happened.

    Attributes:
        kind: prompt, reply, tool, failure, note.
        seconds: Since the first event of the session.
        title: What happened, in one line; holds names as sent.
        parts: Its texts, in order.
        not_logged: What of it was not logged, such as ``result (37 bytes)``.
        is_failure: Something failed or was refused: never left out.
    """

    kind: str
    seconds: float
    title: str
    parts: tuple[StepText, ...] = ()
    not_logged: tuple[str, ...] = ()
    is_failure: bool = False


def session_steps(rows: Sequence[Row]) -> list[SessionStep]:
    """Steps of a session window.

    Args:
        rows: Rows of ``agent_events`` in their order. Which model, agent or masque they name is
            not said in any step.
    """
    if not rows:
        return []
    begin = rows[0]["event_time"]
    results = results_from_requests(rows)
    answered = {row["tool_use_id"] for row in rows if row["event_name"] == "tool_result"}
    steps = []
    for place, row in enumerate(rows):
        seconds = (row["event_time"] - begin).total_seconds()
        if row["event_name"] == "tool_result":
            steps.append(_tool(row, seconds, row["content"] or results.get(place)))
        elif row["event_name"] == "tool_decision":
            steps += _decision(row, seconds, answered)
        elif row["event_name"] in _STEPS:
            steps += _STEPS[row["event_name"]](row, seconds)
    return steps


def _prompt(row: Row, seconds: float) -> Iterator[SessionStep]:
    yield _spoken("prompt", f"PROMPT{_by(row)}", row, seconds, row["content"], "prompt_length")


def _reply(row: Row, seconds: float) -> Iterator[SessionStep]:
    if not (row["query_source"] or "").startswith(_SIDE_CALLS):
        title = "SUMMARY of the conversation" if row["query_source"] == "compact" else "REPLY"
        text = reply_text(row["content"]) if row["content"] else None
        yield _spoken("reply", f"{title}{_by(row)}", row, seconds, text, "response_length")


def _answer(row: Row, seconds: float) -> Iterator[SessionStep]:
    """A call to the model: a reply where its words were logged with it."""
    if row["content"] and reply_text(row["content"]):
        yield from _reply(row, seconds)


def _tool(row: Row, seconds: float, result: str | None) -> SessionStep:
    outcome = {True: "ok", False: "FAILED", None: "outcome unknown"}[row["success"]]
    facts = [outcome]
    if row["exit_code"]:
        facts.append(f"exit code {row['exit_code']}")
    if row["error_type"]:
        facts.append(row["error_type"])
    if row["duration_ms"] is not None:
        facts.append(_duration(row["duration_ms"]))
    error, parameters = row["error"], row["tool_parameters"]
    parts = [
        StepText("parameters", parameters, is_tool_text=True, is_json=True) if parameters else None,
        StepText("error", error) if error else None,
        StepText("result", result, is_tool_text=True) if result and result != error else None,
    ]
    # An error is what came of a call that failed: nothing else is to be expected then.
    silent = [
        None if parameters else _size(row, "parameters", "tool_input_size_bytes", "bytes"),
        None if result or error else _size(row, "result", "tool_result_size_bytes", "bytes"),
    ]
    return SessionStep(
        "tool",
        seconds,
        f"TOOL {row['tool_name'] or 'without a name'}{_by(row)}: {', '.join(facts)}",
        tuple(each for each in parts if each),
        tuple(each for each in silent if each),
        is_failure=row["success"] is False,
    )


def _decision(row: Row, seconds: float, answered: set[str | None]) -> Iterator[SessionStep]:
    tool = f"TOOL {row['tool_name'] or 'without a name'}{_by(row)}"
    error, parameters = row["error"], row["tool_parameters"]
    parts = [
        StepText("parameters", parameters, is_tool_text=True, is_json=True) if parameters else None,
        StepText("error", error) if error else None,
    ]
    texts = tuple(each for each in parts if each)
    if row["decision"] == "reject":
        source = str(json_object(row["attributes"]).get("source", ""))
        whom = " by the user" if source.startswith("user") else ""
        yield SessionStep("tool", seconds, f"{tool}: REFUSED{whom}", texts, is_failure=True)
    elif row["tool_use_id"] and row["tool_use_id"] not in answered:
        yield SessionStep("tool", seconds, f"{tool}: allowed, no result recorded", texts)


def _model_failure(row: Row, seconds: float) -> Iterator[SessionStep]:
    refused = row["event_name"] == "api_refusal"
    what = "THE MODEL REFUSED TO ANSWER" if refused else "A CALL TO THE MODEL FAILED"
    yield _failure(row, seconds, what)


def _compaction(row: Row, seconds: float) -> Iterator[SessionStep]:
    failed = row["success"] is False
    what = "COMPACTION of the conversation, to make room"
    yield (
        _failure(row, seconds, f"{what}: FAILED") if failed else SessionStep("note", seconds, what)
    )


def _hook(row: Row, seconds: float) -> Iterator[SessionStep]:
    if row["success"] is False:
        yield _failure(row, seconds, "A HOOK FAILED")


def _other(row: Row, seconds: float) -> Iterator[SessionStep]:
    """The few events outside the canonical ones that tell how the work went."""
    match row["source_event_name"]:
        case "user_prompt":
            yield _spoken("note", "COMMAND to the program", row, seconds, row["content"], "")
        case "loop_detected":
            yield SessionStep("note", seconds, "THE PROGRAM NOTICED A LOOP", is_failure=True)
        case "api_retries_exhausted":
            yield _failure(row, seconds, "CALLS TO THE MODEL GIVEN UP")
        case "api_request" if row["success"] is False:
            yield _failure(row, seconds, "A CALL TO THE MODEL FAILED")


_STEPS: dict[str, Callable[[Row, float], Iterator[SessionStep]]] = {
    "user_prompt": _prompt,
    "assistant_response": _reply,
    "api_request": _answer,
    "api_error": _model_failure,
    "api_refusal": _model_failure,
    "compaction": _compaction,
    "hook": _hook,
    "other": _other,
}


def _spoken(
    kind: str, title: str, row: Row, seconds: float, text: str | None, length: str
) -> SessionStep:
    if text:
        return SessionStep(kind, seconds, title, (StepText("", text),))
    return SessionStep(kind, seconds, title, (), (_size(row, "text", length, "characters"),))


def _failure(row: Row, seconds: float, what: str) -> SessionStep:
    kind = f" ({row['error_type']})" if row["error_type"] else ""
    parts = (StepText("", row["error"]),) if row["error"] else ()
    return SessionStep("failure", seconds, f"{what}{kind}", parts, is_failure=True)


def _size(row: Row, what: str, attribute: str, unit: str) -> str:
    """What was not logged, with its size where that was."""
    size = json_object(row["attributes"]).get(attribute)
    return f"{what} ({size} {unit})" if str(size).isdigit() else what


def _by(row: Row) -> str:
    """Subagents have telling names: only that it was one is said."""
    return " (subagent)" if row["subagent"] else ""


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
