"""The proof: no byte of the data folder has anything of whom was forgotten."""

import json
import re
from pathlib import Path

import duckdb
import sqlalchemy as sa

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.people.domain.parse import parse_identities
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.updates import open_reputation
from evaluation_pipelines.schemas import REPUTATION_EVENTS
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables.judging import OVERRIDES
from evaluation_pipelines_tests.erasure.two_people import SESSION, TRACES, found, two_people
from evaluation_pipelines_tests.erasure.whole_installation import (
    JUNE_1,
    fill_everything,
    land_signals,
    stores_of,
)
from evaluation_pipelines_tests.workplace import NOW, open_workplace


def test_no_byte_of_any_store_has_a_trace_and_the_others_stay(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        fill_everything(workplace)
        assert stores_of(found(tmp_path)) == {
            *("landing", "ledger", "identities.yaml", "reports", "clickhouse", "analytics_files"),
            *(f"lake {table}" for table in ("agent_events_landed", "event_texts_landed")),
            *(f"lake {table}" for table in ("agent_events", "agent_sessions", "quarantine")),
            *(f"lake {table}" for table in ("session_performance", "tool_reports", "scorecards")),
            *(f"lake {table}" for table in ("session_evaluations", "evaluation_books")),
            *("lake judge_scores", "lake session_outcomes"),
        }
        forgot = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW).run(
            Subject("person", "ada")
        )

        assert found(tmp_path) == {}
        assert [trace.kept_because for trace in forgot.landing] == [None] * 4
        assert forgot.erasure.rows["agent_events_landed"] == 8
        assert not set(re.findall(r"\w+", json.dumps(dict(forgot.erasure.rows)))) & {*TRACES}
        identities = workplace.settings.identities_path.read_text()
        assert [person.person_id for person in parse_identities(identities, "").people] == ["ben"]
        assert "# The only one who stays." in identities
        assert workplace.sessions()["session_id"].to_list() == ["sess-of-ben"]
        with reading(workplace.ledger.engine) as connection:
            by_ada, of_ben = connection.execute(sa.select(OVERRIDES)).mappings()
        assert (by_ada["annotator"], by_ada["reason"]) == ("erased", "fine")
        assert (of_ben["annotator"], of_ben["reason"]) == ("eve", "erased")
        with duckdb.connect(str(workplace.settings.analytics_path), read_only=True) as database:
            rows = database.sql("select session_id from agent_events").fetchall()
            assert {*rows} == {("sess-of-ben",)}
        books = settled_books(workplace.stores, JUNE_1, NOW)
        assert books.is_balanced
        assert [
            unattributed.number
            for unattributed in books.unattributed
            if unattributed.what == "events erased"
        ] == [4]


def test_files_of_other_systems_do_not_bring_it_back(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        land_signals(workplace)
        workplace.land("logs.jsonl", two_people())
        workplace.ingest()
        with open_reputation(workplace.settings, NOW) as store:
            load_external_signals(workplace.stores, store, NOW)
        Forget(workplace.stores, "root", clock=lambda: NOW).run(Subject("session", SESSION))
        signals = workplace.landing.root / "signals" / "s.jsonl"
        with signals.open("ab") as handle:
            handle.write(b"\n")
        with open_reputation(workplace.settings, NOW) as store:
            files = load_external_signals(workplace.stores, store, NOW)
            ids = [f"11111111-1111-4111-8111-{n:012d}" for n in (1, 2)]
            assert store.live(REPUTATION_EVENTS, ids)["event_id"].to_list() == ids[1:]
        assert files["withheld"].sum() == 1
