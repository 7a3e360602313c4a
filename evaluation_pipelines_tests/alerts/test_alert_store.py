from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import Alert
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON, at

FULL = Alert("disk", "a", "disk full", "free some space")
OTHER = Alert("disk", "b", "disk b full", "")


def test_the_same_alert_is_raised_once_until_it_is_over(ledger: Ledger) -> None:
    book = AlertStore(ledger)
    assert book.put(FULL, NOON)
    assert not book.put(Alert("disk", "a", "still full", ""), at(minutes=1))
    assert book.put(OTHER, at(minutes=2))
    assert book.put(Alert("net", "a", "net down", ""), at(minutes=3))

    book.end("disk", {"b"}, at(minutes=4))
    assert not book.put(OTHER, at(minutes=5))
    assert book.put(FULL, at(minutes=6))
    # What is over stays readable, and of another kind nothing ends.
    assert [(each.alert.cause, each.over_at) for each in book.all()] == [
        ("a", at(minutes=4)),
        ("b", None),
        ("a", None),
        ("a", None),
    ]


def test_what_was_told_waits_no_more(ledger: Ledger) -> None:
    book = AlertStore(ledger)
    book.put(FULL, NOON)
    book.put(OTHER, NOON)
    first, second = book.untold()
    assert (first.alert, first.raised_at, first.told_at) == (FULL, NOON, None)

    book.mark_told(first.alert_id, at(minutes=1))
    assert book.untold() == [second]
    assert book.all()[0].told_at == at(minutes=1)


def test_the_newest_of_a_kind_is_found_even_when_it_is_over(ledger: Ledger) -> None:
    book = AlertStore(ledger)
    assert book.newest("disk") is None
    book.put(FULL, NOON)
    book.put(OTHER, NOON)
    book.put(Alert("net", "a", "net down", ""), NOON)
    book.end("disk", set(), NOON)
    newest = book.newest("disk")
    assert newest is not None
    assert newest.alert == OTHER
