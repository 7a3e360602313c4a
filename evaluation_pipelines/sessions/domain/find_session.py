"""Find a session window by its key or by its session id."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import SESSION_KEY

_MAX_NAMED = 5
"""Sessions that a message names."""

SessionRow = Mapping[str, Any]
"""A row of ``agent_sessions``, usually joined with its row of ``session_performance``."""


def session_rows(sessions: pl.DataFrame, performance: pl.DataFrame) -> list[SessionRow]:
    """Return the joined rows of both tables, in the order the windows started."""
    scores = performance.select(
        *SESSION_KEY, *(name for name in performance.columns if name not in sessions.columns)
    )
    joined = sessions.join(scores, on=SESSION_KEY, how="inner", validate="1:1")
    return list(joined.sort("started_at", "ended_at", *SESSION_KEY).iter_rows(named=True))


class SessionNotFoundError(UserError, LookupError):
    """No session window, or more than one, matches a request; the message lists the choices."""


class AmbiguousSessionError(SessionNotFoundError):
    """Several windows match; ``candidates`` are their session keys and organizations."""

    def __init__(self, name: str, candidates: Sequence[tuple[str, str]]) -> None:
        super().__init__(ambiguous_name(name, candidates))
        self.candidates = tuple(candidates)


class AmbiguousBeginningError(AmbiguousSessionError):
    """Several sessions begin with a name."""

    def __init__(self, name: str, candidates: Sequence[tuple[str, str]]) -> None:
        keys = sorted({key for key, _ in candidates})
        more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
        SessionNotFoundError.__init__(
            self, f"Several sessions start with {name}: {', '.join(keys[:_MAX_NAMED])}{more}"
        )
        self.candidates = tuple(candidates)


def match_window(rows: Sequence[SessionRow], name: str) -> SessionRow | None:
    """Return the window with a session key, or else the only window of a session id.

    Args:
        rows: Session windows.
        name: A session key or session id. If it is both, the key counts.

    Returns:
        The window; ``None`` if no window matches.

    Raises:
        AmbiguousSessionError: Several windows match.
    """
    for column in ("session_key", "session_id"):
        found = [row for row in rows if row[column] == name]
        if len(found) == 1:
            return found[0]
        if found:
            keys = [(row["session_key"], row["organization_id"]) for row in found]
            raise AmbiguousSessionError(name, keys)
    return None


def ambiguous_name(name: str, found: Sequence[tuple[str, str]]) -> str:
    """Return what to answer if a name matches several (session key, organization)."""
    keys = ", ".join(dict.fromkeys(key for key, _ in found))
    organizations = sorted({organization for _, organization in found})
    if len(organizations) == 1:
        return f"{name} has several windows. Name one of: {keys}"
    names = ", ".join(organizations)
    return f"{name} is in several organizations: add --organization ({names}), name one of: {keys}"


def whole_name(windows: pl.DataFrame, name: str) -> str:
    """Return the session key or session id that a user means by its beginning.

    Args:
        windows: Session windows, with SESSION_KEY and ``session_id``.
        name: The beginning of a session id or key, or both as tables shorten them:
            ``f9ee754e…#scout-1`` or ``f9ee754e#scout-1``.

    Returns:
        ``name`` itself if it is a key or an id, or if nothing begins so.

    Raises:
        AmbiguousSessionError: Several sessions begin so.
    """
    if windows.filter(pl.any_horizontal(pl.col("session_key", "session_id") == name)).height:
        return name
    beginning, hash_sign, window = name.partition("#")
    beginning = beginning.rstrip("…")
    if not beginning:
        return name
    found = windows.filter(pl.col("session_id").str.starts_with(beginning))
    column = "session_key" if hash_sign else "session_id"
    if hash_sign:
        ending = pl.col("session_key").str.split("#").list.last()
        exact = found.filter(ending == window)
        found = exact if exact.height else found.filter(ending.str.starts_with(window))
    names = found[column].unique().to_list()
    if len(names) > 1:
        raise AmbiguousBeginningError(name, found.select(SESSION_KEY[1], SESSION_KEY[0]).rows())
    return str(names[0]) if names else name


def in_organization(rows: Sequence[SessionRow], organization: str | None) -> list[SessionRow]:
    """Return the windows of an organization, or all of them for ``None``."""
    return [row for row in rows if organization in {None, row["organization_id"]}]


def find_session(
    rows: Sequence[SessionRow], name: str | None, organization: str | None = None
) -> SessionRow:
    """Return the window that a user asks for.

    Args:
        rows: Session windows in the order they started.
        name: A session key or session id; ``None`` for the newest window of a masque, or without
            one the newest window.
        organization: Organization of the session; ``None`` for any.

    Raises:
        SessionNotFoundError: No window or several match.
    """
    candidates = in_organization(rows, organization)
    of = "" if organization is None else f" of {organization}"
    if not candidates:
        raise SessionNotFoundError(f"There is no session{of} in this telemetry.")
    if name is None:
        worn = [row for row in candidates if row["masque"] is not None]
        return (worn or candidates)[-1]
    found = match_window(candidates, name)
    if found is None:
        raise SessionNotFoundError(
            f"There is no session {name} among the {len(candidates)}{of} in this telemetry. "
            "Use --all to see them."
        )
    return found
