"""Lines of the files of a batch: requests as sent, results as received.

A request is known by its ``custom_id``: the id of its scoring and its turn. Results come in any
order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_REQUESTS = 50_000
"""Requests in one file, the limit of the OpenAI Batch API."""

MAX_BYTES = 200_000_000
"""Bytes of one file, its other limit."""

ENDPOINT: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of one request.

    Attributes:
        score_id: Its scoring.
        turn: Its turn.
        status: HTTP status; ``None`` if the request was never answered.
        body: Body of the answer, decoded; ``None`` without an answer.
        reason: Why there is no answer; empty if there is one.
    """

    score_id: str
    turn: str
    status: int | None
    body: Any = None
    reason: str = ""

    @property
    def custom_id(self) -> str:
        """Id of the request."""
        return _custom_id(self.score_id, self.turn)


def request_line(score_id: str, turn: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of one request."""
    request = {
        "custom_id": _custom_id(score_id, turn),
        "method": "POST",
        "url": ENDPOINT,
        "body": body,
    }
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"


def read_result(line: str) -> BatchResult | None:
    """Parse a line of an output or error file; ``None`` if it is not the result of a request."""
    try:
        document = json.loads(line)
        score_id, separator, turn = document["custom_id"].partition(":")
        response, error = document.get("response"), document.get("error")
        if not separator:
            return None
        if isinstance(response, dict) and isinstance(response.get("status_code"), int):
            return BatchResult(score_id, turn, response["status_code"], response.get("body"))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    message = error.get("message") if isinstance(error, dict) else None
    return BatchResult(score_id, turn, None, reason=str(message or "no answer in the batch"))


def _custom_id(score_id: str, turn: str) -> str:
    return f"{score_id}:{turn}"
