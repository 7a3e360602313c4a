"""A changed file of identities makes the dates due whose sessions it changes, and no others."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import Build
from evaluation_pipelines.people.identity_store import IdentityStore, sync_identities
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.ledger.tables.people import IDENTITIES
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line
from evaluation_pipelines_tests.world.built_before import build_from
from evaluation_pipelines_tests.world.lake_files import rewrite, root_of

JUNE_1, JUNE_2, JUNE_3 = (date(2026, 6, day) for day in (1, 2, 3))
HASH = "ab" * 32
ADA = "people:\n  ada:\n    name: Ada\n    team: search\n    ids:\n      - email: ada@x\n"


def prompt(name: str, day: int, **said: object) -> bytes:
    """A session of one prompt on a day of June (from 0); the keywords are of the record."""
    record = claude("user_prompt", day * DAY_S, session__id=name, event__sequence=1, **said)
    return line(record, team__id="platform")


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Workplace]:
    """Ada by e-mail on June 1, by the hash of her machine on June 2, someone else on June 3."""
    with open_workplace(tmp_path) as workplace:
        ada = prompt("a", 0, user__id=HASH, user__email="ada@x") + prompt("b", 1, user__id=HASH)
        build_from(workplace, ada + prompt("c", 2, user__id="eve"))
        sync_identities(workplace.stores, NOW)
        yield workplace


def write(workplace: Workplace, text: str) -> None:
    workplace.settings.identities_path.write_text(text, encoding="utf-8")


def due(workplace: Workplace) -> list[date]:
    """Dates that are due."""
    return [queued_date.session_date for queued_date in RebuildQueue(workplace.ledger).pending(NOW)]


def people(workplace: Workplace) -> list[tuple[str | None, str | None]]:
    """Person and team of the sessions, by date."""
    sessions = workplace.sessions().sort("session_date")
    return sessions.select("person_id", "team").rows()


def test_without_a_file_everyone_is_their_own_id(built: Workplace) -> None:
    assert people(built) == [("ada@x", "platform"), (HASH, "platform"), ("eve", "platform")]
    rows = built.sessions().sort("session_date")
    assert rows.select("user_id", "user_email", "account_id").rows() == [
        ("ada@x", "ada@x", HASH),
        (None, None, HASH),
        ("eve", None, None),
    ]
    assert due(built) == []


def test_exactly_the_dates_are_due_whose_sessions_change(built: Workplace) -> None:
    write(built, ADA)
    synced = sync_identities(built.stores, NOW)
    assert (synced.dates, synced.fault) == ((JUNE_1,), None)
    assert due(built) == [JUNE_1]
    built.build()
    assert people(built) == [("ada", "search"), (HASH, "platform"), ("eve", "platform")]
    # The name is in no table: a new one builds nothing again.
    write(built, ADA.replace("name: Ada", "name: Ada Ash"))
    assert sync_identities(built.stores, NOW).dates == ()
    assert IdentityStore(built.ledger).current().by_id["ada"].name == "Ada Ash"
    write(built, f"{ADA}      - {{account_id: '{HASH}', from: 2026-06-02}}\n")
    assert sync_identities(built.stores, NOW).dates == (JUNE_2,)
    built.build()
    assert people(built)[1] == ("ada", "search")
    # From June 2 on she is in another team.
    moved = "team: [{team: search, to: 2026-06-01}, {team: sales, from: 2026-06-02}]"
    write(built, f"{ADA}      - account_id: '{HASH}'\n".replace("team: search", moved))
    assert sync_identities(built.stores, NOW).dates == (JUNE_2,)
    built.build()
    assert people(built) == [("ada", "search"), ("ada", "sales"), ("eve", "platform")]
    built.settings.identities_path.unlink()
    assert sync_identities(built.stores, NOW).dates == (JUNE_1, JUNE_2)
    built.build()
    assert people(built) == [("ada@x", "platform"), (HASH, "platform"), ("eve", "platform")]


def test_an_unchanged_file_registers_nothing(built: Workplace) -> None:
    write(built, ADA)
    for _ in range(2):
        sync_identities(built.stores, NOW)
    with built.ledger.engine.connect() as connection:
        versions = connection.scalar(sa.select(sa.func.count()).select_from(IDENTITIES))
    assert versions == 2  # without people, and with Ada


@pytest.mark.parametrize("content", [b"people: [", b"people: \xff", b"#" * 5_000_001])
def test_a_file_that_cannot_be_used_changes_nothing(built: Workplace, content: bytes) -> None:
    write(built, ADA)
    sync_identities(built.stores, NOW)
    built.build()
    built.settings.identities_path.write_bytes(content)
    synced = sync_identities(built.stores, NOW)
    assert str(built.settings.identities_path) in str(synced.fault)
    assert set(synced.identities.by_id) == {"ada"}
    assert due(built) == []


def test_a_file_that_is_gone_leaves_nobody_and_says_so(built: Workplace) -> None:
    path = built.settings.identities_path
    path.unlink(missing_ok=True)
    assert sync_identities(built.stores, NOW).fault is None  # there was none before
    write(built, ADA)
    assert sync_identities(built.stores, NOW).fault is None
    path.unlink()
    synced = sync_identities(built.stores, NOW)
    assert synced.fault == (
        f"{path} is missing: 1 person no longer registered. Restore it if this was unintended"
    )
    assert synced.identities.people == ()
    assert sync_identities(built.stores, NOW).fault is None


def test_a_build_that_began_with_the_people_of_before_is_made_again(built: Workplace) -> None:
    queue = RebuildQueue(built.ledger)
    queue.touch([JUNE_3], NOW)
    begun = queue.get(JUNE_3)
    assert begun is not None
    write(built, ADA)
    sync_identities(built.stores, NOW)
    assert queue.mark_built(JUNE_3, begun.version) is False
    assert due(built) == [JUNE_1, JUNE_3]


def test_a_damaged_date_is_built_again_instead_of_stopping_the_others(built: Workplace) -> None:
    (part,) = built.lake.parts(AGENT_SESSIONS, [JUNE_3])
    (root_of(built.lake) / part.path).write_bytes(b"damaged")
    write(built, ADA)
    assert sync_identities(built.stores, NOW).dates == (JUNE_1, JUNE_3)
    built.build()
    assert people(built) == [("ada", "search"), (HASH, "platform"), ("eve", "platform")]


def test_as_of_a_past_time_the_people_of_that_time_count(built: Workplace) -> None:
    later = NOW + timedelta(days=1)
    write(built, ADA)
    sync_identities(built.stores, later)
    for then, known in ((NOW, set()), (later, {"ada"})):
        ledger = type(built.ledger)(built.ledger.engine, then)
        assert set(IdentityStore(ledger).current().by_id) == known


NEW_OF_EVENTS = (
    *("user_email", "account_id", "host_user", "repository", "branch", "environment"),
    "session_attributes",
)


def test_a_folder_of_an_older_version_is_built_again_with_what_it_has(built: Workplace) -> None:
    """The hash and the e-mail of a user were both filed as user_id, and there were no people."""

    def before(events: pl.DataFrame) -> pl.DataFrame:
        user = pl.coalesce("account_id", "user_email", "user_id")
        return events.with_columns(user_id=user).drop(NEW_OF_EVENTS)

    def without_people(sessions: pl.DataFrame) -> pl.DataFrame:
        user = pl.coalesce("account_id", "user_email", "user_id")
        return sessions.with_columns(user_id=user).drop("person_id", "team", *NEW_OF_EVENTS)

    for day in (JUNE_1, JUNE_2, JUNE_3):
        rewrite(built.stores, AGENT_EVENTS, before, day)
        rewrite(built.stores, AGENT_SESSIONS, without_people, day)
    _rewrite_landed(built, before)
    with built.ledger.engine.begin() as connection:
        connection.execute(sa.delete(IDENTITIES))
    assert people(built) == [(None, None)] * 3

    assert sync_identities(built.stores, NOW).dates == (JUNE_1, JUNE_2, JUNE_3)
    # Sessions alone, from events without the new columns ...
    Build(built.stores, [AGENT_SESSIONS.name], clock=lambda: NOW).run([JUNE_1])
    assert people(built)[0] == (HASH, "platform")
    # ... and everything.
    built.build()
    assert due(built) == []
    assert people(built) == [(HASH, "platform"), (HASH, "platform"), ("eve", "platform")]
    rows = built.sessions().sort("session_date")
    assert rows["account_id"].to_list() == [HASH, HASH, None]
    assert rows["user_id"].to_list() == [None, None, "eve"]
    assert built.events().height == 3


def _rewrite_landed(workplace: Workplace, change: object) -> None:
    for day in (JUNE_1, JUNE_2, JUNE_3):
        rewrite(workplace.stores, AGENT_EVENTS_LANDED, change, day)  # type: ignore[arg-type]
