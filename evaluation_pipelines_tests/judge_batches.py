"""The routes of a scripted judge for files and batches.

A batch answers its requests as the endpoint would answer them one by one, when a test calls
``finish``.
"""

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evaluation_pipelines_tests.judge_scripts import (
    AnswerDelivery,
    Scripted,
    WireRequest,
    http_error,
)

_FILE = re.compile(rb'filename="([^"]+)".*?\r\n\r\n(.*?)\r\n--', re.DOTALL)
_DAY_S = 24 * 3600

Complete = Callable[[dict[str, Any], bytes], tuple[int, bytes]]
"""Answers the body of one request: status and body of the answer."""


@dataclass(slots=True)
class BatchRoutes:
    """Files and batches of an endpoint.

    Attributes:
        complete: Answers one request.
        enabled: Whether the endpoint has these routes.
        created_at: Seconds since 1970 at which batches are created.
        expires_at: When they expire, as reported; a day after their creation unless set.
        files: Content by file id.
        batches: Batch objects by id, in order of creation.
        sent: How often each request was part of a created batch, by custom id.
    """

    complete: Complete
    enabled: bool = True
    created_at: int = 1_780_000_000
    expires_at: Any = ...
    files: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    _scripts: dict[str, deque[tuple[Scripted, bool]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    _number: int = 0

    def script(self, route: str, answer: Scripted, *, after: bool = False) -> None:
        """Use ``answer`` for the next request to a route, before or after it has its effect.

        Routes are ``upload``, ``files``, ``file``, ``content``, ``delete``, ``create``, ``list``,
        ``cancel`` and ``retrieve``.
        """
        self._scripts[route].append((answer, after))

    def finish(self, status: str = "completed", answered: int | None = None) -> None:
        """End all open batches; only the first ``answered`` requests of each get an answer."""
        for batch in list(self.batches.values()):  # the endpoint's thread may add one
            if batch["status"] in {"in_progress", "cancelling"}:
                self._finish(batch, status, answered)

    def fail(self, message: str) -> None:
        """Refuse all open batches as a whole."""
        for batch in self.batches.values():
            if batch["status"] == "in_progress":
                batch["status"] = "failed"
                batch["errors"] = {"object": "list", "data": [{"message": message}]}

    def requests(self) -> list[dict[str, Any]]:
        """Return all requests of all batches in order."""
        return [request for batch in self.batches.values() for request in batch["requests"]]

    def _finish(self, batch: dict[str, Any], status: str, answered: int | None) -> None:
        requests = batch["requests"]
        number = len(requests) if answered is None else answered
        lines: dict[str, list[bytes]] = {"output_file_id": [], "error_file_id": []}
        for request in requests[:number]:
            code, body = self.complete(request["body"], json.dumps(request["body"]).encode())
            try:
                document = json.loads(body)
            except ValueError:
                document = body.decode("latin-1")
            response = {"status_code": code, "request_id": "r", "body": document}
            line = {"custom_id": request["custom_id"], "response": response, "error": None}
            kind = "output_file_id" if code == 200 else "error_file_id"
            lines[kind].append(json.dumps(line).encode() + b"\n")
        for request in requests[number:]:
            error = {"code": f"batch_{status}", "message": f"This request was not run: {status}."}
            line = {"custom_id": request["custom_id"], "response": None, "error": error}
            lines["error_file_id"].append(json.dumps(line).encode() + b"\n")
        for kind, content in lines.items():
            if content:  # the order of results is not that of the requests
                batch[kind] = self._store(f"{kind}.jsonl", b"".join(reversed(content)))
        batch["status"] = status
        counts = {"total": len(requests), "completed": number, "failed": len(requests) - number}
        batch["request_counts"] = counts

    def answer(self, request: WireRequest) -> tuple[Scripted, bytes] | None:
        """Answer a request to these routes; ``None`` if it is for another route."""
        parts = urlsplit(request.path)
        names = parts.path.removeprefix("/v1/").split("/")
        if names[0] not in {"files", "batches"}:
            return None
        if not self.enabled:
            return _with_body(http_error(404, "no such route"))
        route = self._route(request.method, names)
        script = self._scripts[route].popleft() if self._scripts[route] else None
        if script is not None and not script[1]:
            return _with_body(script[0])
        answered = self._act(route, names, request, parse_qs(parts.query))
        return answered if script is None else _with_body(script[0], answered[1])

    def _route(self, method: str, names: list[str]) -> str:
        if names[0] == "batches":
            if names[-1] == "cancel":
                return "cancel"
            return "create" if method == "POST" else "list" if len(names) == 1 else "retrieve"
        if method == "DELETE":
            return "delete"
        if method == "POST":
            return "upload"
        if len(names) == 1:
            return "files"
        return "content" if names[-1] == "content" else "file"

    def _act(
        self, route: str, names: list[str], request: WireRequest, query: dict[str, list[str]]
    ) -> tuple[Scripted, bytes]:
        match route:
            case "upload":
                found = _FILE.search(request.raw)
                assert found is not None
                return self._json(self._file(self._store(found[1].decode(), found[2])))
            case "create":
                return self._create(request.body)
            case "list" | "files":
                batches, files = reversed(self.batches.values()), map(self._file, self.files)
                return self._json(_page(batches if route == "list" else files, query))
            case "retrieve" | "cancel" if names[1] in self.batches:
                if route == "cancel":
                    self.batches[names[1]]["status"] = "cancelling"
                return self._json(_public(self.batches[names[1]]))
            case "file" if names[1] in self.files:
                return self._json(self._file(names[1]))
            case "content" if names[1] in self.files:
                return Scripted(), self.files[names[1]]
            case "delete" if self.files.pop(names[1], None) is not None:
                return self._json({"id": names[1], "object": "file", "deleted": True})
        return _with_body(http_error(404, f"no {names[-1]}"))

    def _create(self, body: dict[str, Any]) -> tuple[Scripted, bytes]:
        if body["input_file_id"] not in self.files:
            return _with_body(http_error(400, "no such file"))
        lines = self.files[body["input_file_id"]].splitlines()
        requests = [json.loads(line) for line in lines]
        self.sent.update(request["custom_id"] for request in requests)
        batch_id = self._next("batch")
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "status": "in_progress",
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"],
            "created_at": self.created_at,
            "expires_at": (self.created_at + _DAY_S if self.expires_at is ... else self.expires_at),
            "metadata": body["metadata"],
            "requests": requests,
        }
        return self._json(_public(self.batches[batch_id]))

    def _store(self, name: str, content: bytes) -> str:
        file_id = self._next("file")
        self.files[file_id], self.names[file_id] = content, name
        return file_id

    def _file(self, file_id: str) -> dict[str, Any]:
        return {
            "id": file_id,
            "object": "file",
            "bytes": len(self.files[file_id]),
            "created_at": self.created_at,
            "filename": self.names[file_id],
            "purpose": "batch",
            "status": "processed",
        }

    def _next(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def _json(self, document: dict[str, Any]) -> tuple[Scripted, bytes]:
        return Scripted(), json.dumps(document).encode()


def lost() -> Scripted:
    """Return a reset connection: the request may or may not have had its effect."""
    return Scripted(delivery=AnswerDelivery.RESET)


def _with_body(answer: Scripted, body: bytes = b"{}") -> tuple[Scripted, bytes]:
    return answer, answer.body if answer.body is not None else body


def _public(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name != "requests"}


def _page(objects: Any, query: dict[str, list[str]]) -> dict[str, Any]:
    """Return a page of objects after the one that the query names."""
    every = [_public(found) for found in objects]
    after = query.get("after", [""])[0]
    start = next((n + 1 for n, found in enumerate(every) if found["id"] == after), 0)
    limit = int(query.get("limit", ["100"])[0])
    page = every[start : start + limit]
    return {"object": "list", "data": page, "has_more": start + limit < len(every)}
