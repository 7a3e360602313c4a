"""A model server on this machine: it answers agents in the wire formats of three providers.

It first lists the folder by a tool of the agent, if the request offers one, and then says
``Done.``; every answer has 11 tokens read and 5 written.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKENS = 16
"""Tokens of one answer, read and written."""

_TEXT = "Done."
_CALLS: dict[str, dict[str, Any]] = {
    "Bash": {"command": "ls", "description": "List the folder"},
    "exec_command": {"cmd": "ls"},
    "shell_command": {"command": "ls"},
    "shell": {"command": ["ls"]},
    "list_directory": {"dir_path": ".", "path": "."},
}
"""How each tool of an agent lists the folder."""

_RESULTS = (b'"tool_result"', b'"function_call_output"', b'"functionResponse"')


def call_for(body: bytes) -> str | None:
    """Return the tool to call: one that the request offers, unless it has a result already."""
    if any(result in body for result in _RESULTS):
        return None
    offered = _tools(json.loads(body or b"{}"))
    return next((name for name in _CALLS if name in offered), None)


def _tools(request: dict[str, Any]) -> set[str]:
    tools = request.get("tools") or []
    of_gemini = [function for tool in tools for function in tool.get("functionDeclarations", [])]
    return {str(tool.get("name")) for tool in (*tools, *of_gemini)}


def anthropic_events(call: str | None) -> Iterator[dict[str, Any]]:
    """Events of a streamed answer of the Messages API."""
    yield {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 1},
        },
    }
    if call is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": _TEXT}
    else:
        block = {"type": "tool_use", "id": "toolu_1", "name": call, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(_CALLS[call])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def openai_events(call: str | None) -> Iterator[dict[str, Any]]:
    """Events of a streamed answer of the Responses API."""
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    content = [{"type": "output_text", "text": _TEXT, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    if call is not None:
        sent = {"name": call, "arguments": json.dumps(_CALLS[call])}
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", **sent}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 16,
    }
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


def gemini_events(call: str | None) -> Iterator[dict[str, Any]]:
    """Events of a streamed answer of the Gemini API."""
    part = {"functionCall": {"name": call, "args": _CALLS[call]}} if call else {"text": _TEXT}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}


_FORMATS = {
    "/messages": anthropic_events,
    "/responses": openai_events,
    ":streamGenerateContent": gemini_events,
    ":generateContent": gemini_events,
}
"""Events of an answer by the end of the path that is asked."""


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A running server.

    Attributes:
        url: Its address.
        answers: For each answer of the model the tool that it called; ``None`` for the text.
    """

    url: str
    answers: list[str | None]


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = ScriptedModel(f"http://127.0.0.1:{self.server_port}", [])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        call = call_for(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        path = self.path.partition("?")[0]
        events = next((make for end, make in _FORMATS.items() if path.endswith(end)), None)
        if events is None:  # it counts tokens, for instance
            self._answer("application/json", b'{"input_tokens": 11, "totalTokens": 11}')
            return
        self.server.model.answers.append(call)
        if path.endswith(":generateContent"):
            self._answer("application/json", json.dumps(next(events(call))).encode())
        else:
            self._stream(events(call))

    def do_GET(self) -> None:
        self._answer("application/json", b'{"data": [], "models": []}')

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        lines = []
        for event in events:
            named = f"event: {event['type']}\n" if "type" in event else ""
            lines.append(f"{named}data: {json.dumps(event)}\n\n")
        self._answer("text/event-stream", "".join(lines).encode())

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Keep quiet."""


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """Run the server."""
    server = _Server()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
