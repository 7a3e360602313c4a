"""A model behind the APIs of OpenAI and Anthropic that follows a script.

Where it may ask `evaluation-pipelines mcp` it lists sessions once. A prompt to Claude Code may ask
for another number of places, and its rules to skip Atlantis.

It looks up Oslo, then Atlantis, which the tool does not know, then answers. A conversation with
both results is answered at once, so that a second prompt costs one request. Each request uses
``INPUT_TOKENS``, of which ``CACHED_TOKENS`` come from the cache, and ``OUTPUT_TOKENS``.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

MODEL = "gpt-4.1-mini"
INPUT_TOKENS, CACHED_TOKENS, OUTPUT_TOKENS = 100, 40, 20
PLACES = ("Oslo", "Atlantis")
ANSWER = "Oslo lies in Norway."
LIST_SESSIONS = "mcp__evaluation__find_sessions"
_numbers = count(1)


@contextmanager
def open_scripted_model() -> Iterator[str]:
    """Serve the model on a free port of 127.0.0.1 and yield its address, without ``/v1``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self._send(_chat(body))
        elif path.endswith("/responses"):
            self._send(_response(body))
        elif path.endswith("/messages"):
            self._stream(_message(body)) if body.get("stream") else self._send(_message(body))
        else:
            self.send_error(404)

    def _send(self, answer: dict[str, Any]) -> None:
        self._write("application/json", json.dumps(answer).encode())

    def _stream(self, message: dict[str, Any]) -> None:
        events = "".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(message)
        )
        self._write("text/event-stream", events.encode())

    def _write(self, content_type: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Keep quiet."""


def _next(
    results: int, tools: list[str], wanted: int = 2, places: Sequence[str] = PLACES
) -> str | None:
    """Return the place to look up next; None when it is time to answer."""
    return places[results % len(places)] if results < wanted and tools else None


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    results = sum(message["role"] == "tool" for message in body["messages"])
    place = _next(results, body.get("tools") or [])
    message: dict[str, Any] = {"role": "assistant", "content": None if place else ANSWER}
    if place:
        function = {"name": "look_up", "arguments": json.dumps({"place": place})}
        message["tool_calls"] = [
            {"id": f"call_{next(_numbers)}", "type": "function", "function": function}
        ]
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": MODEL,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if place else "stop"}
        ],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _response(body: dict[str, Any]) -> dict[str, Any]:
    sent = body["input"] if isinstance(body["input"], list) else []
    results = sum(message.get("type") == "function_call_output" for message in sent)
    place = _next(results, body.get("tools") or [])
    number = next(_numbers)
    item: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    if place:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": "look_up",
            "arguments": json.dumps({"place": place}),
            "status": "completed",
        }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_780_000_000,
        "status": "completed",
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _message(body: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Anthropic: list sessions, or read a file and one that does not exist."""
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    results = sum(block.get("type") == "tool_result" for block in blocks)
    names = [tool["name"] for tool in body.get("tools") or []]
    text = json.dumps(body)
    asked = re.search(r"Where are (\d) places", text)
    place = _next(
        results,
        ["Read"] if "Read" in names else [],
        int(asked[1]) if asked else len(PLACES),
        PLACES[:1] if "Skip Atlantis" in text else PLACES,
    )
    content: dict[str, Any] = {"type": "text", "text": ANSWER}
    if LIST_SESSIONS in names:
        place = None if results else LIST_SESSIONS
        content |= {"text": "One session."}
    if place == LIST_SESSIONS:
        content = {"type": "tool_use", "id": f"toolu_{next(_numbers)}", "name": place, "input": {}}
    elif place:
        content = {
            "type": "tool_use",
            "id": f"toolu_{next(_numbers)}",
            "name": "Read",
            "input": {"file_path": f"{place.lower()}.txt"},
        }
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [content],
        "stop_reason": "tool_use" if place else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": INPUT_TOKENS - CACHED_TOKENS,
            "cache_read_input_tokens": CACHED_TOKENS,
            "cache_creation_input_tokens": 0,
            "output_tokens": OUTPUT_TOKENS,
        },
    }


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events by which Anthropic streams a message."""
    (block,) = message["content"]
    is_text = block["type"] == "text"
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None},
    }
    empty = {**block, "text": ""} if is_text else {**block, "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    delta = (
        {"type": "text_delta", "text": block["text"]}
        if is_text
        else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    )
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }
    yield {"type": "message_stop"}
