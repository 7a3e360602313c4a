"""What a scripted judge was asked, kept for tests to look at."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Received:
    """One request, and what became of it.

    Attributes:
        turn: ``score``, ``reminder`` or ``missing-tools``.
        headers: Names in small letters.
        body: The decoded JSON; None where the journal does not keep it.
        raw: The same as bytes.
        session: Hash of the first message: the same in all turns of a session.
        prompt: Hash of all messages.
        status: HTTP status of the answer.
        reply: What was said; None for anything but a completion.
        answered: Whether a whole answer was sent, or is just about to be.
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
    """Add a line to a journal that outlives the process: ``asked``, ``answered``, ``spoiled``."""
    row = {
        "event": event,
        "turn": received.turn,
        "session": received.session,
        "prompt": received.prompt,
        "status": received.status,
    }
    with path.open("a") as handle:
        handle.write(json.dumps(row) + "\n")
