"""Find a session window by its key or by its session id."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation_pipelines.errors import UserError

SessionRow = Mapping[str, Any]
"""A row of ``agent_sessions``, usually joined with its row of ``session_performance``."""


class SessionNotFoundError(UserError, LookupError):
    """No session window, or more than one, matches a request; the message lists the choices."""


def match_window(
    rows: Sequence[SessionRow], name: str, choice: str = "name one of"
) -> SessionRow | None:
    """Return the window with a session key, or else the only window of a session id.

    Args:
        rows: Session windows.
        name: A session key or session id. If it is both, the key counts.
        choice: What to ask the user to do with the list of keys in the error message.

    Returns:
        The window; ``None`` if no window matches.

    Raises:
        SessionNotFoundError: Several windows match; the message lists their keys.
    """
    for column in ("session_key", "session_id"):
        found = [row for row in rows if row[column] == name]
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(f"{row['session_key']} of {row['organization_id']}" for row in found)
            raise SessionNotFoundError(f"{name} has several windows; {choice}: {keys}")
    return None


def find_session(rows: Sequence[SessionRow], name: str | None) -> SessionRow:
    """Return the window that a user asks for.

    Args:
        rows: Session windows in the order they started.
        name: A session key or session id; ``None`` for the newest window.

    Raises:
        SessionNotFoundError: No window or several match.
    """
    if not rows:
        raise SessionNotFoundError("There is no session in this telemetry.")
    if name is None:
        return rows[-1]
    found = match_window(rows, name)
    if found is None:
        raise SessionNotFoundError(
            f"There is no session {name} among the {len(rows)} in this telemetry. "
            "Use --all to see them."
        )
    return found
