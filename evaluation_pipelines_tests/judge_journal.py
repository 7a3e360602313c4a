"""Journal of the requests to a scripted judge."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Received:
    """A received request and its answer.

    Attributes:
        turn: ``score``, ``reminder`` or ``missing-tools``.
        headers: Headers with lowercase names.
        body: The decoded JSON; ``None`` if the endpoint does not keep bodies.
        raw: The body as bytes.
        session: Hash of the first message of the user, which all turns of a session share.
        prompt: Hash of all messages.
        status: HTTP status of the answer.
        reply: Text of the reply; ``None`` if the answer is not a completion.
        answered: True if a complete answer was sent or is about to be sent.
    """

    turn: str
    headers: dict[str, str]
    body: Any
    raw: bytes
    session: str
    prompt: str
    status: int = 200
    reply: str | None = None
    answered: bool = False


def append_event(path: Path, event: str, received: Received) -> None:
    """Append a line to a journal file; ``event`` is ``asked``, ``answered`` or ``spoiled``."""
    row = {
        "event": event,
        "turn": received.turn,
        "session": received.session,
        "prompt": received.prompt,
        "status": received.status,
    }
    with path.open("a") as handle:
        handle.write(json.dumps(row) + "\n")
