"""An installation in which every store has something of Ada."""

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.people.identity_store import sync_identities
from evaluation_pipelines.reporting.comparison_report import refresh_comparison, report_files
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    export_agent_ratings,
    export_reputation,
    open_reputation,
)
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.judging import (
    AUDIT_SAMPLES,
    AUDIT_STEPS,
    OVERRIDES,
    SESSION_SCORES,
)
from evaluation_pipelines.storage.ledger.tables.people import ALERTS, SUBMITTED_EVALUATIONS
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    PHRASE,
    SESSION,
    two_people,
)
from evaluation_pipelines_tests.judging.ledger.score_builders import new_score, turn
from evaluation_pipelines_tests.workplace import NOW, Workplace

JUNE_1 = date(2026, 6, 1)
IDENTITIES = f"""\
people:
  ada:   # left the company
    name: Ada Ash
    ids:
      - email: {EMAIL}
  # The only one who stays.
  ben:
    name: Ben Beech
    ids:
      - email: ben@orchard.test
"""
_BROKEN = f'{{"resourceLogs": "{EMAIL}", "x": oops\n'.encode()
_SIGNAL = (
    '{{"event_id": "11111111-1111-4111-8111-{n:012d}", "timestamp": "2026-06-01T12:00:00Z", '
    '"identity_id": "22222222-2222-4222-8222-222222222222", "category": "economic", '
    '"event_type": "payment_failed", "score_delta": -0.5, "reference_type": "session", '
    '"reference_id": "{session}"}}\n'
)


_EVALUATION = (
    '{{"evaluation_id": "{n}", "organization_id": "default", "agent_id": "scout", '
    '"evaluated_at": "2026-06-01T12:00:00Z", "passed": true, "source": "{source}"}}\n'
)


def fill_everything(workplace: Workplace) -> None:
    """Ingest and build the sessions of Ada and Ben, and fill every store from them."""
    land_signals(workplace)
    fill_ledger(workplace)
    write_masque_lift(workplace.stores, NOW)
    refresh_comparison(workplace.stores, NOW)
    page = f"the worst one: {EMAIL}".encode()
    report_files(workplace.stores).put("worst.html", page, shared=True)
    _update_reputation(workplace)
    publish_analytics(workplace.stores, NOW)


def fill_ledger(workplace: Workplace) -> None:
    """Ingest and build the sessions of Ada and Ben, and judge and note them."""
    workplace.settings.identities_path.write_text(IDENTITIES)
    workplace.land("logs.jsonl", two_people() + _BROKEN)
    outcomes = [
        {"session_id": session_id, "kind": "merged"} for session_id in (SESSION, "sess-of-ben")
    ]
    workplace.land("outcomes.jsonl", "".join(f"{json.dumps(e)}\n" for e in outcomes).encode())
    workplace.ingest()
    sync_identities(workplace.stores, NOW)
    _judge(workplace)
    workplace.build()
    _note(workplace)


def land_signals(workplace: Workplace) -> None:
    """Land two external signals: about the session of Ada and about that of Ben."""
    signals = _SIGNAL.format(n=1, session=SESSION) + _SIGNAL.format(n=2, session="sess-of-ben")
    workplace.land("signals/s.jsonl", signals.encode())
    # Without a reference: a text names her.
    lines = _EVALUATION.format(n=1, source=EMAIL) + _EVALUATION.format(n=2, source="sdk")
    workplace.land("evaluations/e.jsonl", lines.encode())


def _judge(workplace: Workplace) -> None:
    """A scoring of a session of each, with a quotation in the analysis of Ada's."""
    store = ScoreStore(workplace.ledger)
    for session, said in ((SESSION, PHRASE), ("sess-of-ben", "hello")):
        score = new_score(f"{session}#baseline-1", organization_id="default", session_date=JUNE_1)
        with writing(workplace.ledger.engine) as connection:
            row = {
                **{name: getattr(score, name) for name in _names(score)},
                "status": "failed",
                "scored_at_us": 1,
                "attempt": 1,
                "retriable": False,
                "turn_log": [asdict(turn(text=f"{session} said {said}"))],
                "error_message": f"no score of {session}",
            }
            connection.execute(sa.insert(SESSION_SCORES).values(row))
    assert len(store.by_window(JUNE_1)) == 2


def _names(score: object) -> list[str]:
    return [name for name in SESSION_SCORES.c.keys() if hasattr(score, name)]  # noqa: SIM118


def _note(workplace: Workplace) -> None:
    """An override of a score of Ada's and one by her, an alert, and a step of an audit."""
    override = {
        "organization_id": "default",
        "session_date": JUNE_1,
        "profile_id": "default",
        "profile_version": 1,
        "content_hash": "c",
        "override_score": 50.0,
        "scale_min": 0.0,
        "scale_max": 100.0,
        "is_confirmation": False,
        "source": "person",
        "made_at": NOW,
    }
    about_ada = {"session_key": f"{SESSION}#baseline-1", "annotator": "eve", "reason": PHRASE}
    by_ada = {"session_key": "sess-of-ben#baseline-1", "annotator": EMAIL, "reason": "fine"}
    with writing(workplace.ledger.engine) as connection:
        connection.execute(sa.insert(OVERRIDES), [override | about_ada, override | by_ada])
        of_ben = {"session_key": "sess-of-ben#baseline-1", "annotator": "eve"}
        told = {"reason": f"{EMAIL} says it is fine", "recorded_by": EMAIL}
        connection.execute(sa.insert(OVERRIDES), [override | of_ben | told])
        sample: dict[str, object] = {
            "organization_id": "default",
            "session_key": "sess-of-ben#baseline-1",
        }
        sample |= {"session_date": JUNE_1, "profile_id": "default", "content_hash": "c"}
        sample |= {"classification_label": f"of {EMAIL}", "drawn_at": NOW}
        sample |= {"model": f"tuned for {EMAIL}"}
        connection.execute(sa.insert(AUDIT_SAMPLES).values(sample))
        sent: dict[str, object] = {
            "organization_id": "default",
            "agent_id": "scout",
            "evaluation_id": "3",
        }
        sent |= {"evaluated_at": NOW, "passed": True, "latency_budget_ms": 1.0, "source": EMAIL}
        sent |= {"submitted_by": "key", "submitted_at": NOW}
        connection.execute(sa.insert(SUBMITTED_EVALUATIONS).values(sent))
        alert = {"kind": "risk", "cause": f"{SESSION}#baseline-1", "title": "t", "text": "x"}
        connection.execute(sa.insert(ALERTS).values(alert | {"raised_at": NOW}))
        step = {"annotator": "eve", "step": "look", "organization_id": "default", "made_at": NOW}
        connection.execute(
            sa.insert(AUDIT_STEPS).values(step | {"session_key": f"{SESSION}#baseline-1"})
        )


def _update_reputation(workplace: Workplace) -> None:
    stores = workplace.stores
    with open_reputation(workplace.settings, NOW) as store:
        bridge_sessions(stores, store, stores.lake.partitions(SESSION_EVALUATIONS), NOW)
        load_external_signals(stores, store, NOW)
        export_reputation(stores, store)
        export_agent_ratings(stores, store, NOW)


def stores_of(files: dict[str, list[str]]) -> set[str]:
    """The stores that files belong to: their first folder, or their table in the lake."""
    return {_store(Path(path)) for path in files}


def _store(path: Path) -> str:
    first = path.parts[0]
    if first == "lake":
        return f"lake {path.parts[1]}"
    return "ledger" if first.startswith("ledger.db") else first
