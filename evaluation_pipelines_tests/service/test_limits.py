"""How many requests a key or an address may send, and what is answered beyond that."""

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyStore
from evaluation_pipelines.service import limits
from evaluation_pipelines.service.limits import TokenBuckets
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace

PROXY = "10.0.0.7"


def limited(workplace: Workplace) -> Service:
    """Return a service that allows one request in 40 seconds."""
    settings = Settings(
        data_dir=workplace.settings.data_dir,
        service_requests_per_second=0.025,
        trusted_proxies=PROXY,
    )
    return Service(Workplace(settings, workplace.landing, workplace.lake, workplace.ledger))


def test_an_address_that_asks_too_much_is_429(workplace: Workplace) -> None:
    service = limited(workplace)
    key = service.key(Role.INGEST)
    assert service.client(peer="10.0.0.1").get("/health").status_code == 200
    refused = service.client(key, "10.0.0.1").post("/v1/logs", json={})
    assert (refused.status_code, refused.json()["code"]) == (429, 8)  # RESOURCE_EXHAUSTED
    assert refused.headers["retry-after"] == "40"
    assert (
        service.client(peer="10.0.0.1").get("/health").json()["error"]["code"]
        == "too_many_requests"
    )
    assert service.client(peer="10.0.0.2").get("/health").status_code == 200
    for address in ("10.0.0.3", "10.0.0.4"):
        headers = {"X-Forwarded-For": address}
        assert service.client(peer=PROXY).get("/health", headers=headers).status_code == 200


def test_a_network_of_one_holder_counts_as_one_address(workplace: Workplace) -> None:
    service = limited(workplace)

    def statuses(*peers: str) -> list[int]:
        return [service.client(peer=peer).get("/health").status_code for peer in peers]

    # Whoever has one IPv6 address has the 2**64 of its network.
    assert statuses("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1") == [200, 429, 200]
    assert statuses("10.0.0.9", "::ffff:10.0.0.9", "::ffff:10.0.0.10") == [200, 429, 200]


def test_a_new_key_does_not_pay_for_one_of_the_same_name(workplace: Workplace) -> None:
    service = limited(workplace)
    first = service.key(Role.READER)
    assert service.client(first).get("/metrics").status_code == 200
    KeyStore(workplace.ledger).revoke("reader-all", NOW)
    second = service.key(Role.READER)
    assert service.client(second).get("/metrics").status_code == 200


def test_a_key_that_asks_too_much_is_429_from_any_address(workplace: Workplace) -> None:
    service = limited(workplace)
    first, second = service.key(Role.READER), service.key(Role.OPERATOR)
    assert service.client(first).get("/metrics").status_code == 200
    refused = service.client(first, "10.0.0.1").get("/metrics")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "40"
    assert service.client(second).get("/metrics").status_code == 200


def test_this_machine_is_not_limited_without_keys(workplace: Workplace) -> None:
    client = limited(workplace).client()
    assert [client.get("/metrics").status_code for _ in range(3)] == [200] * 3


def test_wrong_keys_are_slowed_down_and_right_ones_are_not(service: Service) -> None:
    wrong = [service.client("wrong").get("/metrics").status_code for _ in range(30)]
    assert wrong[:20] == [401] * 20
    assert wrong[-1] == 429
    assert service.client(service.key(Role.READER)).get("/metrics").status_code == 200
    assert service.client("wrong", "10.0.0.1").get("/metrics").status_code == 401


def test_a_bucket_fills_with_time_up_to_its_size() -> None:
    times = iter([0.0, 0.0, 0.0, 0.25, 0.5, 9.0, 9.0, 9.0])
    buckets = TokenBuckets(per_second=2, burst=2, monotonic=times.__next__)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0.5]
    # Half a token after a quarter of a second, a whole one after half a second.
    assert [buckets.take("a") for _ in range(2)] == [0.25, 0]
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0.5]


def test_names_that_ask_least_recently_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MAX_BUCKETS", 2)
    buckets = TokenBuckets(per_second=1, burst=1, monotonic=lambda: 0.0)
    assert [buckets.take(name) for name in "aabac"] == [0, 1, 0, 1, 0]
    assert [buckets.take(name) for name in "ab"] == [1, 0]
