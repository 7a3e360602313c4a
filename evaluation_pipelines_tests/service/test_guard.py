"""Who is answered at all: keys, addresses, hosts, origins, how much of each; refusals; the log."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyStore
from evaluation_pipelines.service import limits
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.limits import (
    TokenBuckets,
    client_address,
    is_known_host,
    is_loopback,
    is_same_origin,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines_tests.service.clients import ADDRESS, Service, denial
from evaluation_pipelines_tests.service.live_service import LiveService, server_in_thread
from evaluation_pipelines_tests.storage.full_disk import files_up_to
from evaluation_pipelines_tests.workplace import NOW, Workplace

PROXY = "10.0.0.7"


def code(response: object) -> str:
    return str(response.json()["error"]["code"])  # type: ignore[attr-defined]


def behind_proxy(workplace: Workplace, **options: Any) -> Service:
    settings = Settings(
        data_dir=workplace.settings.data_dir,
        trusted_proxies=PROXY,
        service_hosts="eval.example",
        **options,
    )
    return Service(Workplace(settings, workplace.landing, workplace.lake, workplace.ledger))


# -- keys ------------------------------------------------------------------------------------------


OTHER = "192.168.1.5"
NO_KEY, UNKNOWN = (401, "no_key"), (403, "unknown_host")
HOSTS = ["localhost", "LOCALHOST:8400", "127.0.0.1:8400", "[::1]:8400", "10.1.2.3", "localhost:"]
EVIL_HOSTS = [
    *("evil.example", "evil.example:8400", "", "localhost.evil", "a@b", ":x@localhost"),
    *("@localhost", "localhost#evil", "localhost?", "localhost:8400x", "[::1]x", "[localhost]"),
    "localhost\\x",
]


@pytest.mark.parametrize(
    ("peer", "headers", "asked", "expected"),
    [
        # Without keys this machine may everything, and no other one anything.
        ("127.0.0.1", [], "GET /metrics", (200, None)),
        *((peer, [], "GET /metrics", NO_KEY) for peer in (OTHER, "", f"::ffff:{OTHER}")),
        ("127.0.0.1", [("X-Forwarded-For", OTHER)], "GET /metrics", NO_KEY),
        # A wrong key is refused also while there are none.
        *(
            ("127.0.0.1", [("Authorization", key)], "GET /metrics", NO_KEY)
            for key in ("Bearer x", "Basic YTpi", "Bearer", "bearer  ", "x")
        ),
        # Another name is refused whatever is asked, and of two names neither counts.
        *(("127.0.0.1", [("Host", host)], "GET /health", UNKNOWN) for host in EVIL_HOSTS),
        *(("127.0.0.1", [("Host", host)], "GET /health", (200, None)) for host in HOSTS),
        (
            "127.0.0.1",
            [("Host", "localhost"), ("Host", "evil.example")],
            "GET /health",
            (400, "invalid_request"),
        ),
        ("127.0.0.1", [("Origin", ADDRESS)], "POST /nothing", (404, "not_found")),
        ("127.0.0.1", [], "DELETE /health", (405, "method_not_allowed")),
    ],
)
def test_who_asks_under_which_name_is_answered_or_refused(
    service: Service,
    peer: str,
    headers: list[tuple[str, str]],
    asked: str,
    expected: tuple[int, str | None],
) -> None:
    response = service.client(peer=peer).request(*asked.split(), headers=headers)
    status = response.status_code
    assert (status, None if status == 200 else code(response)) == expected
    assert response.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    assert response.headers.get("allow") == ("GET, HEAD" if status == 405 else None)


def test_an_expired_key_is_refused_and_no_other_method_answered(service: Service) -> None:
    key = service.key(Role.READER, expires_at=NOW)
    assert service.client(key).get("/metrics").status_code == 401
    assert service.client().head("/v1/evaluate").status_code == 405


def test_names_of_the_settings_and_of_the_host_are_compared() -> None:
    assert is_known_host("eval.example:443", ["Eval.Example"])
    assert not is_known_host("eval.example/x", ["eval.example"])
    # Whoever speaks TLS.
    assert is_same_origin("https://eval.example", "eval.example")
    assert is_same_origin("https://eval.example", "eval.example:443")
    assert is_same_origin("http://Eval.example:80", "eval.example")
    assert not is_same_origin("https://eval.example:8443", "eval.example")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:9999", "file://localhost:8400", "localhost"],
)
def test_a_page_of_another_site_may_change_nothing(service: Service, origin: str) -> None:
    client = service.client()
    response = client.post("/v1/logs", headers={"Origin": origin}, content=b"{}")
    assert (response.status_code, response.json()["code"]) == (403, 7)  # PERMISSION_DENIED
    assert code(client.post("/v1/evaluate", headers={"Origin": origin})) == "foreign_origin"
    assert client.get("/health", headers={"Origin": origin}).status_code == 200


# -- proxies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        (PROXY, "1.2.3.4", "1.2.3.4"),
        (PROXY, "6.6.6.6, 1.2.3.4", "1.2.3.4"),  # the client wrote the first one itself
        (PROXY, "1.2.3.4, 10.0.0.7", "1.2.3.4"),
        (PROXY, None, PROXY),
        (PROXY, "nonsense", PROXY),
        ("9.9.9.9", "1.2.3.4", "9.9.9.9"),
    ],
)
def test_a_forwarded_address_is_believed_from_proxies_only(
    peer: str, forwarded: str | None, address: str
) -> None:
    assert client_address(peer, forwarded, (PROXY,)) == address


@pytest.mark.parametrize(("peer", "name"), [(PROXY, "ada"), ("10.0.0.8", "reader-all")])
def test_a_forwarded_user_is_believed_from_proxies_only(
    workplace: Workplace, peer: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = behind_proxy(workplace)
    client = service.client(service.key(Role.READER), peer)
    with caplog.at_level(logging.INFO, "evaluation_pipelines.service.access"):
        headers = {"Host": "eval.example", "X-Forwarded-User": "ada"}
        assert client.get("/metrics", headers=headers).status_code == 200
    assert caplog.messages[-1].split()[1] == name


def test_loopback_is_an_address_or_localhost() -> None:
    assert [host for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost") if is_loopback(host)]
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))  # noqa: S104


# -- form of answers, log, metrics -----------------------------------------------------------------


def test_what_does_not_exist_has_the_form_of_all_errors(service: Service) -> None:
    response = service.client().get("/nothing")
    assert response.status_code == 404
    assert response.json() == {"error": {"code": "not_found", "message": "Not Found", "help": None}}
    assert code(service.client().post("/health")) == "method_not_allowed"


def test_an_invalid_request_is_400_and_does_not_repeat_what_was_sent(service: Service) -> None:
    @service.app.get("/number")
    def number(value: int) -> int:
        return value

    response = service.client().get("/number?value=secret")
    assert (response.status_code, code(response)) == (400, "invalid_request")
    assert response.json()["error"]["message"].startswith("query.value: ")
    assert "secret" not in response.text


def test_a_failure_is_500_with_the_number_that_the_log_has(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    @service.app.get("/broken")
    def broken() -> None:
        raise RuntimeError("password")

    response = service.client().get("/broken")
    assert (response.status_code, code(response)) == (500, "internal_error")
    assert "password" not in response.text
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert logged.getMessage().split()[1] in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/cut", "/v1/logs"])
def test_a_request_that_the_end_of_the_service_cuts_off_is_only_repeated_if_nothing_doubles(
    service: Service, path: str
) -> None:
    async def cut() -> None:
        raise asyncio.CancelledError

    service.app.router.routes.insert(0, APIRoute(path, cut, methods=["GET", "POST"]))
    vars(service.app)["receiving"].clear()  # its routes are looked up first
    client = service.client()
    found = {name: client.request(name, path) for name in ("GET", "HEAD", "POST")}
    doubles = path == "/cut"
    assert {answer.status_code for answer in found.values()} == {503}
    assert {name: answer.headers.get("retry-after") for name, answer in found.items()} == {
        "GET": "1",
        "HEAD": "1",
        "POST": None if doubles else "1",
    }
    assert ("may have been carried out" in found["POST"].text) == doubles


@pytest.mark.parametrize("path", ["/health", "/nothing", "/metrics"])
def test_every_answer_restricts_browsers(service: Service, path: str) -> None:
    headers = service.client().get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


def test_the_log_has_no_secret(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    key = service.key(Role.OPERATOR, expires_at=NOW + timedelta(days=1))
    with caplog.at_level(logging.INFO):
        service.client(key).get("/metrics?token=hidden")
        service.client(key).get("/a%0Ab")
    mine = [message for message in caplog.messages if message.startswith("127.0.0.1")]
    assert mine[0].startswith("127.0.0.1 operator-all GET /metrics 200 ")
    assert mine[1].startswith("127.0.0.1 - GET /a%0Ab 404 ")
    assert "hidden" not in caplog.text.replace("GET http", "")[: len(mine[0])]
    assert key not in caplog.text


def test_what_agents_send_all_the_time_is_only_logged_if_it_is_refused(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "evaluation_pipelines.service.access"):
        for content in ("{}", "no JSON"):
            headers = {"Content-Type": "application/json"}
            service.client().post("/v1/logs", content=content, headers=headers)
    mine = [record for record in caplog.records if record.message.startswith("127.0.0.1")]
    found = [(record.levelname, record.message.split()[4]) for record in mine]
    assert found == [("DEBUG", "200"), ("INFO", "400")]


@pytest.mark.parametrize("url", ["/health?a={}", "/metrics?token=Bearer%20{}&b", "/api?{}"])
def test_a_key_in_a_query_is_refused_with_what_to_do(service: Service, url: str) -> None:
    key = service.key(Role.READER)
    answer = service.client(key).get(url.format(key))
    assert (answer.status_code, code(answer)) == (400, "key_in_query")
    assert "Authorization: Bearer KEY" in answer.json()["error"]["help"]
    assert key not in answer.text
    listening = f"ws://localhost:8400/api/v1/events?channel=sessions&key={key.replace('_', '%5F')}"
    assert denial(service.client(key), listening) == (400, "key_in_query")


def test_the_log_of_the_process_has_no_query(tmp_path: Path) -> None:
    running = LiveService(tmp_path)
    try:
        running.wait()
        for path in ("/health?first", "/nothing?second", "/api/v1/events?channel=third"):
            with suppress(HTTPError):
                urlopen(f"http://127.0.0.1:{running.port}{path}")
        events = f"ws://127.0.0.1:{running.port}/api/v1/events"
        with connect(f"{events}?channel=sessions"):
            pass
        with pytest.raises(InvalidStatus):
            connect(f"{events}?channel=fifth")
    finally:
        running.process.terminate()
        running.ended()
    log = (tmp_path / f"service-{running.port}.log").read_text()
    assert "WEBSOCKET /api/v1/events 101" in log
    assert "WEBSOCKET /api/v1/events 400" in log
    assert not [word for word in ("first", "second", "third", "sessions", "fifth") if word in log]


def test_requests_are_counted_by_route(service: Service) -> None:
    client: TestClient = service.client()
    client.get("/health")
    client.get("/health")
    client.get("/nothing/else")
    text = client.get("/metrics").text
    counted = 'evaluation_http_requests_total{method="%s",route="%s",status="%s"} %s'
    assert counted % ("GET", "/health", "200", "2.0") in text
    assert counted % ("other", "other", "404", "1.0") in text


def test_health_and_readiness_need_no_key(service: Service) -> None:
    service.key(Role.READER)
    client = service.client()
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_a_full_disk_is_not_ready_and_ready_again_after(service: Service) -> None:
    client = service.client()
    with files_up_to(1000):
        full = client.get("/ready")
    assert (full.status_code, code(full)) == (503, "not_ready")
    assert "cannot be written: File too large" in full.json()["error"]["message"]
    assert client.get("/ready").status_code == 200
    landing = service.workplace.landing.root
    assert not [path for path in landing.rglob("*") if path.is_file()]


def test_a_ledger_that_fails_is_503_and_not_ready(service: Service) -> None:
    with writing(service.workplace.ledger.engine) as connection:
        connection.execute(sa.text("DROP TABLE access_keys"))
    response = service.client().get("/ready")
    assert (response.status_code, code(response)) == (503, "ledger_unavailable")


# -- methods and ports -----------------------------------------------------------------------------


def test_head_is_get_without_a_body_on_one_connection(service: Service) -> None:
    with server_in_thread(service.app) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        for method, body in (("HEAD", b""), ("GET", b'{"status":"ok"}'), ("HEAD", b"")):
            connection.request(method, "/health")
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("content-length")) == (200, "15")
            assert answer.read() == body
        connection.close()


def test_docs_leads_to_the_page_of_the_api_without_a_key(service: Service) -> None:
    service.key(Role.READER)
    client = service.client(peer="203.0.113.7")
    answer = client.get("/docs", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/api")
    assert client.get("/docs").is_success


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/metrics", 404), ("/api", 404), ("/nothing", 404)]
)
def test_the_port_of_agents_only_receives(service: Service, path: str, status: int) -> None:
    app = create_app(service.app.state.installation, otlp_port=4318)
    client = TestClient(app, "http://localhost:4318", client=("127.0.0.1", 50_000))
    assert client.post("/v1/logs", json={}).status_code == 200
    assert client.get(path).status_code == status
    listening = "ws://localhost:4318/api/v1/events?channel=sessions"
    assert denial(client, listening) == (404, "not_found")
    assert TestClient(app, ADDRESS, client=("127.0.0.1", 50_000)).get("/metrics").is_success


# -- groups ----------------------------------------------------------------------------------------

GROUPS = "admins=operator, acme/devs=reader@acme, staff=reviewer"


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        (PROXY, {"Groups": "admins"}, 200),
        (PROXY, {"Groups": "others, admins", "User": "ada"}, 200),
        (PROXY, {"Groups": "acme/devs"}, 403),  # not of all organizations
        (PROXY, {"Groups": "others"}, 403),
        (PROXY, {"User": "ada"}, 403),
        (PROXY, {}, 200),  # a program with its own key
        ("10.0.0.8", {"Groups": "others", "User": "ada"}, 200),  # not believed
    ],
)
def test_groups_of_a_proxy_take_away_from_its_key(
    workplace: Workplace, peer: str, headers: dict[str, str], status: int
) -> None:
    """Without the setting they mean nothing."""
    service = behind_proxy(workplace, forwarded_groups=GROUPS)
    key = service.key(Role.OPERATOR)
    client = service.client(key, peer)
    sent = {f"X-Forwarded-{name}": value for name, value in headers.items()}
    assert client.get("/metrics", headers=sent).status_code == status
    unset = behind_proxy(workplace).client(key, peer)
    assert unset.get("/metrics", headers=sent).status_code == 200


@pytest.mark.parametrize(
    ("role", "peer", "headers", "left"),
    [
        (Role.OPERATOR, PROXY, {}, Role.READER),
        (Role.REVIEWER, PROXY, {"User": "", "Groups": ""}, Role.READER),
        (Role.REVIEWER, PROXY, {"User": " "}, Role.READER),
        (Role.READER, PROXY, {}, Role.READER),
        (Role.INGEST, PROXY, {}, Role.INGEST),  # agents, which read nothing
        (Role.OPERATOR, "10.0.0.8", {}, Role.OPERATOR),  # no proxy
    ],
)
def test_a_proxy_that_names_no_person_gets_the_least_role(
    workplace: Workplace, role: Role, peer: str, headers: dict[str, str], left: Role
) -> None:
    service = behind_proxy(workplace, forwarded_groups=GROUPS)
    client = service.client(service.key(role, "acme"), peer)
    client.headers.update({f"X-Forwarded-{name}": value for name, value in headers.items()})
    allowed = {
        Role.INGEST: client.post("/v1/logs", json={}),
        Role.READER: client.get("/api/v1/sessions"),
        Role.REVIEWER: client.get("/api/v1/sessions/none/transcript"),
        Role.OPERATOR: client.post("/api/v1/scoring/sessions/none/score", json={}),
    }
    may = {role for role, answer in allowed.items() if answer.status_code != 403}
    assert may == {role for role in Role if left.includes(role)}


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

    def statuses(*peers: str) -> list[int]:
        return [service.client(peer=peer).get("/health").status_code for peer in peers]

    # Without keys this machine is not limited.
    client = service.client()
    assert [client.get("/metrics").status_code for _ in range(3)] == [200] * 3
    assert statuses("10.0.0.1", "10.0.0.1", "10.0.0.2") == [200, 429, 200]
    # Whoever has one IPv6 address has the 2**64 of its network.
    assert statuses("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1") == [200, 429, 200]
    assert statuses("10.0.0.9", "::ffff:10.0.0.9", "::ffff:10.0.0.10") == [200, 429, 200]
    for address in ("10.0.0.3", "10.0.0.4"):
        headers = {"X-Forwarded-For": address}
        assert service.client(peer=PROXY).get("/health", headers=headers).status_code == 200
    key = service.key(Role.INGEST)
    refused = service.client(key, "10.0.0.1").post("/v1/logs", json={})
    assert (refused.status_code, refused.json()["code"]) == (429, 8)  # RESOURCE_EXHAUSTED
    assert refused.headers["retry-after"] == "40"
    assert code(service.client(peer="10.0.0.1").get("/health")) == "too_many_requests"


def test_a_key_that_asks_too_much_is_429_from_any_address(workplace: Workplace) -> None:
    service = limited(workplace)
    first, second = service.key(Role.READER), service.key(Role.OPERATOR)
    assert service.client(first).get("/metrics").status_code == 200
    refused = service.client(first, "10.0.0.1").get("/metrics")
    assert (refused.status_code, code(refused)) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "40"
    assert service.client(second).get("/metrics").status_code == 200
    # A new key does not pay for one of the same name.
    KeyStore(workplace.ledger).revoke("reader-all", NOW)
    assert service.client(service.key(Role.READER)).get("/metrics").status_code == 200


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
