"""A model server on this machine: it answers agents in the wire formats of three providers.

Every answer is the text ``Done.``, with 11 tokens read and 5 written.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

_TEXT = "Done."


def anthropic_events() -> Iterator[dict[str, Any]]:
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
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "text_delta", "text": _TEXT}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def openai_events() -> Iterator[dict[str, Any]]:
    """Events of a streamed answer of the Responses API."""
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    content = [{"type": "output_text", "text": _TEXT, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 16,
    }
    yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


def gemini_events() -> Iterator[dict[str, Any]]:
    """Events of a streamed answer of the Gemini API."""
    content = {"role": "model", "parts": [{"text": _TEXT}]}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            self._stream(anthropic_events())
        elif path.endswith("/responses"):
            self._stream(openai_events())
        elif path.endswith(":streamGenerateContent"):
            self._stream(gemini_events())
        elif path.endswith(":generateContent"):
            self._answer("application/json", json.dumps(next(gemini_events())).encode())
        else:
            self._answer("application/json", b'{"input_tokens": 11, "totalTokens": 11}')

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
def scripted_model() -> Iterator[str]:
    """Run the server; its address is given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
