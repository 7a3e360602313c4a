from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import Alert
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.world.ledger import NOON, at

FULL = Alert("disk", "a", "disk full", "free some space")
OTHER = Alert("disk", "b", "disk b full", "")


def test_the_same_alert_is_raised_once_until_it_ends(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    assert store.put(FULL, NOON)
    assert not store.put(Alert("disk", "a", "still full", ""), at(minutes=1))
    assert store.put(OTHER, at(minutes=2))
    assert store.put(Alert("net", "a", "net down", ""), at(minutes=3))

    store.end_except("disk", {"b"}, at(minutes=4))
    assert not store.put(OTHER, at(minutes=5))
    assert store.put(FULL, at(minutes=6))
    # Ended alerts stay readable, and alerts of another kind do not end.
    assert [(row.alert.cause, row.ended_at) for row in store.all()] == [
        ("a", at(minutes=4)),
        ("b", None),
        ("a", None),
        ("a", None),
    ]


def test_only_unsent_alerts_wait(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    store.put(FULL, NOON)
    store.put(OTHER, NOON)
    first, second = store.unsent()
    assert (first.alert, first.raised_at, first.sent_at) == (FULL, NOON, None)

    store.mark_sent(first.alert_id, at(minutes=1))
    assert store.unsent() == [second]
    assert store.all()[0].sent_at == at(minutes=1)


def test_the_newest_alert_of_a_kind_is_found_even_after_it_ended(ledger: Ledger) -> None:
    store = AlertStore(ledger)
    assert store.newest("disk") is None
    store.put(FULL, NOON)
    store.put(OTHER, NOON)
    store.put(Alert("net", "a", "net down", ""), NOON)
    store.end_except("disk", set(), NOON)
    newest = store.newest("disk")
    assert newest is not None
    assert newest.alert == OTHER
