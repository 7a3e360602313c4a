"""The organization of records that name none.

An agent sends no organization before sign-in, or before it knows it. Such records belong to the
organization that the others of their session name, if these name exactly one. Ids that are short
counters ("1", "42") are no evidence: any program uses them.
"""

import re
from collections.abc import Mapping
from datetime import date

import polars as pl

NO_ORGANIZATION = "default"
"""Organization of records that name none; attribution lines of none are null, and apply to any."""

ANY_ORGANIZATION = "*"
"""Organization of a session that only an attribution line has named so far."""

_COUNTER = r"^[0-9]{1,9}$"
_SESSION = ("session_date", "session_id")


def is_counter(session_id: str) -> bool:
    """Return True if a session id is a short counter, which different sessions may share."""
    return re.fullmatch(_COUNTER, session_id) is not None


def shared_date(organization: str, session_id: str, dates: Mapping[str, date]) -> date | None:
    """Return the date that a session shares with the other organizations of its session id.

    An attribution line names no organization, and applies to any. Sessions whose ids are short
    counters share nothing else.

    Args:
        organization: That of the session, or ANY_ORGANIZATION.
        session_id: Its session id.
        dates: Dates of the session id by organization.
    """
    is_shared = not is_counter(session_id)
    shared = (
        day
        for other, day in dates.items()
        if other != organization and (is_shared or ANY_ORGANIZATION in {organization, other})
    )
    return min(shared, default=None)


def named_organizations(sessions: pl.DataFrame, by: tuple[str, ...] = _SESSION) -> pl.DataFrame:
    """Return the one organization that each session id names; ids that name several are absent.

    Args:
        sessions: With ``organization_id`` and the columns of ``by``; rows may repeat.
        by: Columns that identify a session id.

    Returns:
        The columns of ``by``, and ``named``.
    """
    is_named = pl.col("organization_id") != NO_ORGANIZATION
    named = sessions.filter(is_named, ~pl.col("session_id").str.contains(_COUNTER))
    organizations = named.select(*by, named="organization_id").unique()
    return organizations.filter(pl.len().over(by) == 1)


def with_organizations(events: pl.DataFrame) -> pl.DataFrame:
    """Return events with the organization of their session where they name none.

    Args:
        events: Whole dates, with ``organization_id``, ``session_id`` and ``session_date``.
    """
    is_nameless = pl.col("organization_id").fill_null(NO_ORGANIZATION) == NO_ORGANIZATION
    sent = events.select("organization_id", *_SESSION)
    sessions = sent.unique()
    nameless = sessions.filter(is_nameless)
    named = named_organizations(sessions).join(nameless, on=_SESSION, how="semi")
    if named.is_empty():
        return events
    joined = sent.join(named, on=_SESSION, how="left", maintain_order="left")
    organization = pl.when(is_nameless & pl.col("named").is_not_null()).then("named")
    return events.with_columns(
        *joined.select(organization_id=organization.otherwise("organization_id"))
    )
