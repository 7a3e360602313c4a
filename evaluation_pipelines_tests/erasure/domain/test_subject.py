"""Which sessions are of a person, user, session or organization."""

from datetime import date

import polars as pl
import pytest

from evaluation_pipelines.erasure.domain.subject import (
    SEEN_COLUMNS,
    SESSIONS,
    Subject,
    SubjectKind,
    ids_of,
    sessions_of,
    with_subagents,
)
from evaluation_pipelines.people.domain.identities import NO_IDENTITIES, Identities
from evaluation_pipelines.people.domain.parse import parse_identities
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED

ACCOUNT = "ab" * 32
ADA = parse_identities(
    f"""
people:
  ada:
    name: Ada
    ids:
      - email: ada@x
      - account_id: {ACCOUNT}
        to: 2026-06-30
      - host_user: root
""",
    "",
)


def seen(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Rows of program, day, e-mail, user id, account id, host user, organization, session."""
    schema = {name: AGENT_EVENTS_LANDED.schema[name] for name in SEEN_COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row")


def row(
    session: str, organization: str | None = "acme", month: int = 6, **ids: str
) -> tuple[object, ...]:
    names = ("user_email", "user_id", "account_id", "host_user")
    sent = [ids.get(name) for name in names]
    return (
        "codex",
        date(2026, month, 1),
        *sent,
        organization,
        session,
    )


def chosen(
    kind: SubjectKind, value: str, *rows: tuple[object, ...], who: Identities = NO_IDENTITIES
) -> set[object]:
    found = sessions_of(seen(*rows), Subject(kind, value), who)
    return {session for organization, session in found.iter_rows() if organization}


SEEN = (
    row("by-email", user_email="Ada@x"),
    row("by-account", account_id=ACCOUNT),
    row("by-account-later", month=7, account_id=ACCOUNT),
    row("by-host", host_user="root"),
    row("of-ben-on-her-machine", user_email="ben@x", host_user="root"),
    row("of-ben-with-her-account", user_email="ben@x", account_id=ACCOUNT),
    row("other", organization="globex", user_id="ada"),
)


@pytest.mark.parametrize(
    ("kind", "value", "sessions"),
    [
        ("person", "ada@x", {"by-email"}),
        ("person", "ADA@X", {"by-email"}),
        ("person", "ada", {"other"}),
        ("user", "ada@x", {"by-email"}),
        ("user", "root", {"by-host", "of-ben-on-her-machine"}),
        ("session", "other", {"other"}),
        ("organization", "globex", {"other"}),
        ("organization", "glob", set()),
    ],
)
def test_sessions_are_chosen_by_ids(kind: SubjectKind, value: str, sessions: set[str]) -> None:
    assert chosen(kind, value, *SEEN) == sessions


def test_a_person_of_the_identities_is_found_by_every_id_on_its_days() -> None:
    assert chosen("person", "ada", *SEEN, who=ADA) == {
        *("by-email", "by-account", "by-host", "of-ben-with-her-account"),
        "of-ben-on-her-machine",  # his e-mail is of no person, and her machine is hers
        "other",
    }


def test_a_dated_id_and_a_host_user_may_be_of_others_later() -> None:
    assert ids_of(Subject("person", "ada"), ADA) == {"ada", "ada@x"}
    assert ids_of(Subject("user", "root"), ADA) == {"root"}
    assert ids_of(Subject("session", "s"), ADA) == set()


def test_attribution_is_taken_with_the_last_session_of_its_id() -> None:
    both = (row("s", user_id="ada"), row("s", organization="globex", user_id="ben"), row("s", None))
    of_ada = sessions_of(seen(*both), Subject("user", "ada"), NO_IDENTITIES)
    assert of_ada.rows() == [("acme", "s")]
    alone = sessions_of(seen(both[0], both[2]), Subject("user", "ada"), NO_IDENTITIES)
    # What it sent, or will send, before it knew its organization is the third.
    assert set(alone.rows()) == {("acme", "s"), (None, "s"), ("default", "s")}


def test_siblings_of_a_sub_agent_go_with_it() -> None:
    chosen = pl.DataFrame([("acme", "child-1")], schema=SESSIONS, orient="row")
    rows = [("acme", "child-1", "root"), ("acme", "child-2", "root"), ("acme", "child-3", "other")]
    subagents = pl.DataFrame(rows, schema=[*SESSIONS.names(), "parent_session_id"], orient="row")
    found = with_subagents(chosen, subagents)["session_id"]
    assert sorted(found) == ["child-1", "child-2", "root"]
