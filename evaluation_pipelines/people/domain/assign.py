"""Person and team of sessions."""

import polars as pl

from evaluation_pipelines.people.domain.identities import (
    ID_COLUMNS,
    ID_KINDS,
    Identities,
    SentIds,
)

SENT = ("source_cli", "session_date", *(ID_COLUMNS[kind] for kind in ID_KINDS))
"""Columns of ``agent_sessions`` that decide who a person is, in the order of ``SentIds``."""

_FOUND = pl.Schema({"person_id": pl.String(), "person_team": pl.String()})


def with_people(sessions: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return sessions with ``person_id`` and ``team``.

    The team is that of the person on the session date; for someone without one, ``team_id``.

    Args:
        sessions: AGENT_SESSIONS, which may lack both columns.
        identities: Who is who.
    """
    sent = sessions.select(SENT).unique(maintain_order=True)
    people = [_found(SentIds(*row), identities) for row in sent.rows()]
    found = sent.hstack(pl.DataFrame(people, schema=_FOUND, orient="row"))
    return (
        sessions.drop("person_id", "team", strict=False)
        .join(found, on=SENT, how="left", nulls_equal=True, validate="m:1", maintain_order="left")
        .with_columns(team=pl.coalesce("person_team", "team_id"))
        .drop("person_team")
    )


def _found(sent: SentIds, identities: Identities) -> tuple[str | None, str | None]:
    person_id = identities.person_of(sent)
    person = identities.by_id.get(person_id or "")
    return person_id, None if person is None else person.team_on(sent.day)
