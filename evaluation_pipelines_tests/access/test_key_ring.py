"""Keys in the ledger, and who sends one."""

from datetime import timedelta

import pytest

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.access.key_ring import (
    KeyRing,
    KeyStore,
    KeyTakenError,
    NoSuchKeyError,
    create_key,
)
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.workplace import NOW


class Ring:
    """A key ring at ``NOW``, whose seconds are those of the test."""

    def __init__(self, ledger: Ledger) -> None:
        self.seconds = 0.0
        self.keys = KeyRing(ledger, lambda: NOW, lambda: self.seconds)


def test_a_key_is_found_by_its_text_which_is_kept_nowhere(ledger: Ledger) -> None:
    text = create_key(ledger, "ada", Role.READER, "acme", now=NOW)

    assert Ring(ledger).keys.caller(text) == Caller("ada", "acme", Role.READER)
    (stored,) = KeyStore(ledger).all()
    assert text.split("_", 2)[2] not in repr(stored)
    assert (stored.created_at, stored.expires_at, stored.revoked_at) == (NOW, None, None)


def test_every_key_is_another(ledger: Ledger) -> None:
    texts = {create_key(ledger, f"a{number}", Role.INGEST, None, now=NOW) for number in range(5)}
    assert len(texts) == 5
    assert len(KeyStore(ledger).all()) == 5


def test_a_name_is_free_again_when_its_key_was_revoked(ledger: Ledger) -> None:
    first = create_key(ledger, "ada", Role.READER, None, now=NOW)
    with pytest.raises(KeyTakenError, match="keys revoke ada"):
        create_key(ledger, "ada", Role.OPERATOR, None, now=NOW)

    KeyStore(ledger).revoke("ada", NOW)
    second = create_key(ledger, "ada", Role.OPERATOR, None, now=NOW)

    ring = Ring(ledger)
    assert ring.keys.caller(first) is None
    assert ring.keys.caller(second) == Caller("ada", None, Role.OPERATOR)


def test_what_is_revoked_already_cannot_be_revoked(ledger: Ledger) -> None:
    create_key(ledger, "ada", Role.READER, None, now=NOW)
    KeyStore(ledger).revoke("ada", NOW)
    with pytest.raises(NoSuchKeyError, match="ada"):
        KeyStore(ledger).revoke("ada", NOW)


def test_a_new_or_revoked_key_counts_within_a_second(ledger: Ledger) -> None:
    ring = Ring(ledger)
    assert not ring.keys.has_keys()
    text = create_key(ledger, "ada", Role.READER, None, now=NOW)
    ring.seconds = 0.9
    assert ring.keys.caller(text) is None
    ring.seconds = 1.0
    assert ring.keys.caller(text) is not None

    KeyStore(ledger).revoke("ada", NOW)
    ring.seconds = 2.0
    assert ring.keys.caller(text) is None


def test_once_there_was_a_key_there_always_is_one(ledger: Ledger) -> None:
    create_key(ledger, "ada", Role.READER, None, now=NOW)
    create_key(ledger, "eve", Role.READER, None, now=NOW, expires_at=NOW - timedelta(days=1))
    KeyStore(ledger).revoke("ada", NOW)

    ring = Ring(ledger)
    assert ring.keys.has_keys()
    assert not ring.keys.has_valid_keys()
