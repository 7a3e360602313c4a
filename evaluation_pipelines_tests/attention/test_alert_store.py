"""What an alert shows while sessions await a blind review."""

import pytest

from evaluation_pipelines.attention.alert_store import AlertStore, visible_alerts
from evaluation_pipelines.attention.domain.messages import SPENDING, Alert, quality_risk_alert
from evaluation_pipelines_tests.attention.domain.test_messages import risk
from evaluation_pipelines_tests.workplace import NOW, Workplace

WAITING = {("default", "s1#baseline-1")}
RISKS = quality_risk_alert("7", [risk(session_key="s1#baseline-1")])


def test_an_alert_whose_sessions_are_not_known_is_not_shown(workplace: Workplace) -> None:
    """Its events are gone: its text may have the score of a session that awaits a review."""
    AlertStore(workplace.ledger).put(RISKS, NOW)
    assert visible_alerts(workplace.ledger, [RISKS], ()) == [RISKS]
    assert visible_alerts(workplace.ledger, [RISKS], WAITING) == [None]


def test_no_alert_is_read_for_those_of_other_kinds(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(AlertStore, "all")
    spent = Alert(SPENDING, "x", "acme spent $3", "a: $2.00 (model m)")
    assert visible_alerts(workplace.ledger, [spent], WAITING) == [spent]


def test_a_caller_that_has_read_all_alerts_reads_them_once(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    AlertStore(workplace.ledger).put(RISKS, NOW)
    known = AlertStore(workplace.ledger).all()
    monkeypatch.delattr(AlertStore, "all")
    assert visible_alerts(workplace.ledger, [RISKS], WAITING, known) == [None]
