"""OTLP over HTTP: what is taken and how it is answered, limits, organizations."""

import gzip
import json
import subprocess
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.receiver import receiver
from evaluation_pipelines.service.receiver.requests import Signal, check_protobuf, check_transcript
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.live_service import server_in_thread
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line, session

if TYPE_CHECKING:
    from evaluation_pipelines_tests.servers.landing_bucket import Bucket

JSON, PROTOBUF = "application/json", "application/x-protobuf"
TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"
MIB = 1024 * 1024
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda body: bytes(pa.compress(body, codec="zstd", asbytes=True)),
}
"""What clients may do to a body, by its content encoding."""


def posted(
    client: TestClient, body: bytes, path: str = "/v1/logs", kind: str = JSON, **headers: str
) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(path, content=body, headers={"Content-Type": kind, **named})


def encoded(document: bytes) -> bytes:
    """Return a request for logs in protobuf."""
    content: bytes = ParseDict(json.loads(document), ExportLogsServiceRequest()).SerializeToString()
    return content


def in_protobuf(name: str = "s") -> bytes:
    return encoded(session(name))


def received(workplace: Workplace) -> dict[str, bytes]:
    """Folder and ending -> what has been received there."""
    root, found = workplace.landing.root / "received", dict[str, bytes]()
    for path in sorted(root.rglob("*.*")):
        key = f"{path.parent.relative_to(root)}{path.suffix}"
        found[key] = found.get(key, b"") + path.read_bytes()
    return found


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service with limits that are reached quickly."""
    monkeypatch.setattr(receiver, "MAX_FILE_BYTES", 1000)
    limits = {"receive_max_body_bytes": 4096, "max_attributes": 3}
    with open_workplace(tmp_path, **limits) as workplace:
        yield Service(workplace)


# -- what is taken ---------------------------------------------------------------------------------


def test_json_is_appended_as_it_came_in_one_line(service: Service) -> None:
    pretty = json.dumps(json.loads(session("a")), indent=2).encode().replace(b"\n", b"\r\n")
    first, second = posted(service.client(), session("b")), posted(service.client(), pretty)

    assert (first.status_code, first.json(), second.status_code) == (200, {}, 200)
    assert first.headers["content-type"] == JSON
    (content,) = received(service.workplace).values()
    one, two = content.splitlines()
    assert one.strip() == session("b").strip()
    assert two == pretty.replace(b"\r\n", b"  ")


def test_protobuf_is_appended_as_it_came_after_its_length(service: Service) -> None:
    body = in_protobuf()
    response = posted(service.client(), body, kind=PROTOBUF)

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == PROTOBUF
    assert received(service.workplace) == {"_/2026-12-01.pb": len(body).to_bytes(4) + body}


@pytest.mark.parametrize("kind", [JSON, PROTOBUF, f"{JSON}; charset=utf-8"])
@pytest.mark.parametrize("encoding", ["identity", *PACK])
def test_what_was_taken_is_ingested(service: Service, kind: str, encoding: str) -> None:
    body = in_protobuf() if kind == PROTOBUF else session("s")
    packed = PACK[encoding](body) if encoding in PACK else body
    answer = posted(service.client(), packed, kind=kind, Content_Encoding=encoding)
    assert answer.status_code == 200

    service.workplace.ingest()
    landed = service.workplace.landed().select("session_id", "event_name").rows()
    assert sorted(landed) == [("s", "tool_result"), ("s", "user_prompt")]


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_may_have_several_members(service: Service, encoding: str) -> None:
    body, pack = session("s"), PACK[encoding]
    packed = pack(body[:100]) + pack(body[100:])
    assert posted(service.client(), packed, Content_Encoding=encoding).status_code == 200
    assert list(received(service.workplace).values()) == [body.replace(b"\n", b" ") + b"\n"]


def test_traces_are_kept_and_metrics_only_counted(service: Service) -> None:
    client = service.client()
    spans = b'{"resourceSpans": [{"scopeSpans": []}]}'
    assert posted(client, spans, "/v1/traces").status_code == 200
    assert posted(client, b'{"resourceMetrics": []}', "/v1/metrics").status_code == 200

    assert received(service.workplace) == {"_/2026-12-01.jsonl": spans + b"\n"}
    text = client.get("/metrics").text
    for signal in ("traces", "metrics"):
        labels = f'format="jsonl",signal="{signal}"'
        assert f"evaluation_received_requests_total{{{labels}}} 1.0" in text
    assert 'route="/v1/traces",status="200"} 1.0' in text


@pytest.mark.parametrize(("kind", "body"), [(JSON, b" {\n} "), (PROTOBUF, b"")])
def test_an_empty_request_is_fine_and_stored_nowhere(
    service: Service, kind: str, body: bytes
) -> None:
    for signal in ("logs", "traces", "metrics"):
        assert posted(service.client(), body, f"/v1/{signal}", kind).status_code == 200
    assert received(service.workplace) == {}


def test_records_for_the_quarantine_are_a_partial_success(small: Service) -> None:
    # With the session and the name of the event, four attributes and three.
    many = line(claude("user_prompt", a=1, b=2), claude("user_prompt", a=1))
    broken = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{}, 5]}]}]}'

    partial = posted(small.client(), many).json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1"
    assert partial["errorMessage"].startswith("1 of 2 records are broken or have more than 3 attr")
    assert posted(small.client(), broken).json()["partialSuccess"]["rejectedLogRecords"] == "1"

    content = posted(small.client(), encoded(many), kind=PROTOBUF).content
    answer = ExportLogsServiceResponse.FromString(content)
    assert answer.partial_success.rejected_log_records == 1

    small.workplace.ingest()
    assert small.workplace.quarantined().height == 3


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b"null",
        session("s")[:-20],
        b"\xff\xfe" + session("s"),
        b"\xef\xbb\xbf{}",
        b'{"resourceSpans": []}',
        b'{"session_id": "a", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}',
        b'{"resourceLogs": [' + b'{"a":[' * 5000,
        b"{}{}",
    ],
)
def test_what_cannot_be_decoded_is_400_and_stored_nowhere(service: Service, body: bytes) -> None:
    response = posted(service.client(), body)
    assert response.status_code == 400
    assert response.json()["code"] == 3
    assert response.json()["message"].startswith("This is not an OTLP request: ")
    assert received(service.workplace) == {}


@pytest.mark.parametrize("body", [b"\n\xff", b"no protobuf", in_protobuf()[:-3], b"{}"])
def test_errors_in_protobuf_are_a_status_message(service: Service, body: bytes) -> None:
    response = posted(service.client(), body, kind=PROTOBUF)
    assert (response.status_code, response.headers["content-type"]) == (400, PROTOBUF)
    # Field 1 is the number 3 (INVALID_ARGUMENT), field 2 a text.
    assert response.content.startswith(b"\x08\x03\x12")
    assert b"This is not an OTLP request" in response.content
    assert received(service.workplace) == {}


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [("text/plain", ""), ("", ""), ("application/grpc", ""), (JSON, "br"), (JSON, "gzip, gzip")],
)
def test_other_formats_and_encodings_are_415(service: Service, kind: str, encoding: str) -> None:
    response = posted(service.client(), session("s"), kind=kind, Content_Encoding=encoding)
    assert response.status_code == 415


def test_a_body_over_the_limit_is_413(small: Service) -> None:
    body = line(claude("user_prompt", prompt="x" * 4096))
    assert posted(small.client(), body).status_code == 413
    for encoding, pack in PACK.items():
        answer = posted(small.client(), pack(body), Content_Encoding=encoding)
        assert answer.status_code == 413

    def pieces() -> Iterator[bytes]:  # without a length, which could be a lie anyway
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    streamed = small.client().post("/v1/logs", content=pieces(), headers={"Content-Type": JSON})
    assert streamed.status_code == 413
    assert received(small.workplace) == {}
    assert posted(small.client(), session("s")).status_code == 200


@pytest.mark.parametrize("encoding", PACK)
def test_a_bomb_ends_at_the_limits_of_size_and_ratio(service: Service, encoding: str) -> None:
    # At most a thousandth is left of blanks: 8 MiB are over the ratio of 500, 24 MiB over the size.
    for mib in (8, 24):
        bomb = PACK[encoding](b" " * mib * MIB)
        assert posted(service.client(), bomb, Content_Encoding=encoding).status_code == 413
    assert posted(service.client(), session("s")).status_code == 200


def test_gzip_that_is_made_to_take_long_is_refused_soon(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_members = gzip.compress(b"") * (2 * MIB // 20)
    begun, original = list[int](), zlib.decompressobj

    def counting(bits: int) -> Any:
        begun.append(bits)
        return original(bits)

    monkeypatch.setattr(zlib, "decompressobj", counting)
    response = posted(service.client(), empty_members, Content_Encoding="gzip")
    assert response.status_code == 400
    assert "more than 1000 members" in response.json()["message"]
    assert len(begun) == 1001  # of 104,857


@pytest.mark.parametrize("cut", [1, 8, 20])
@pytest.mark.parametrize("encoding", PACK)
def test_a_body_that_is_cut_or_damaged_is_400(service: Service, cut: int, encoding: str) -> None:
    packed, client = PACK[encoding](session("s")), service.client()
    for body in (packed[:-cut], packed + b"x", session("s")):
        answer = posted(client, body, Content_Encoding=encoding)
        assert answer.status_code == 400
        assert f"The body is no sound {encoding}: " in answer.json()["message"]


# -- keys and organizations ------------------------------------------------------------------------


def test_what_comes_with_a_key_is_of_its_organization_whatever_it_says(service: Service) -> None:
    said = session("s", organization__id="said")
    for organization in ("acme", "A/b", None):
        client = service.client(service.key(Role.INGEST, organization))
        assert posted(client, said).status_code == 200
    client = service.client(service.key(Role.OPERATOR, "acme"))
    assert posted(client, encoded(said), kind=PROTOBUF).status_code == 200

    assert set(received(service.workplace)) == {
        *("acme/2026-12-01.jsonl", "acme/2026-12-01.pb"),
        *("A%2Fb/2026-12-01.jsonl", "_/2026-12-01.jsonl"),
    }
    service.workplace.ingest()
    counts = service.workplace.landed().group_by("organization_id").agg(pl.len())
    assert sorted(counts.rows()) == [("A/b", 2), ("acme", 4), ("said", 2)]


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_without_a_key_that_may_write_nothing_is_taken(service: Service, kind: str) -> None:
    reader = service.key(Role.READER, "acme")
    expired = service.key(Role.INGEST, expires_at=NOW - timedelta(days=1))
    for key, status in ((None, 401), ("wrong", 401), (expired, 401), (reader, 403)):
        response = posted(service.client(key), b"{}", "/v1/logs", kind)
        assert response.status_code == status
        assert response.headers["content-type"] == kind
    assert received(service.workplace) == {}


# -- files -----------------------------------------------------------------------------------------


def test_a_file_of_the_limit_is_followed_by_another(small: Service) -> None:
    client, root = small.client(), small.workplace.landing.root
    with client:  # one event loop for all requests, as in a server
        for number in range(4):  # of about 640 bytes each
            assert posted(client, session(f"s{number}")).status_code == 200
    sizes = [path.stat().st_size for path in root.rglob("*.jsonl")]
    assert [size // len(session("s0")) for size in sizes] == [2, 2]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in root.rglob("*.jsonl"))


def test_settings_cannot_allow_more_than_a_file_can_hold() -> None:
    with pytest.raises(ValueError, match="receive_max_body_bytes"):
        Settings(receive_max_body_bytes=16 * MIB + 1)


def test_a_message_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(ServiceError, match="A message may have 16777215 bytes") as refusal:
        check_protobuf(bytes(16 * MIB), Signal.LOGS, 100)
    assert refusal.value.status_code == 413


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_without_a_folder_nothing_is_received_and_everything_else_works(
    bucket: "Bucket", tmp_path: Path, kind: str
) -> None:
    with open_workplace(tmp_path, landing_dir=bucket.url) as workplace:
        client = Service(workplace).client()
        answer = posted(client, session("a") if kind == JSON else in_protobuf(), kind=kind)
        assert answer.status_code == 501
        assert f"receives no telemetry: it is read from {bucket.url}" in answer.text
        assert [client.get(path).status_code for path in ("/ready", "/api/v1/sessions")] == [
            200,
            200,
        ]
        assert bucket.keys() == []


def test_the_hook_of_agent_config_sends_a_session_with_its_sub_agents(
    service: Service, program: Program
) -> None:
    (path,) = TRANSCRIPTS.rglob("21f14f16*.jsonl")
    key = service.key(Role.INGEST, "acme")
    with server_in_thread(service.app) as port:
        address = ("--endpoint", f"http://127.0.0.1:{port}", "--key", key)
        printed = program("agent-config", "claude-code", "--transcripts", *address)
        ((hook,),) = (hook["hooks"] for hook in json.loads(printed.out)["hooks"]["SessionEnd"])
        given = json.dumps({"transcript_path": str(path)})
        subprocess.run(["sh", "-c", hook["command"]], input=given, text=True, check=True)

    service.workplace.ingest()
    service.workplace.build()
    (row,) = service.workplace.sessions().to_dicts()
    # Requests 8 and 9 are those of the sub-agent.
    assert (row["organization_id"], row["api_requests"]) == ("acme", 12)


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        # Forks, which have copies of their parent's lines.
        ("ea7cf16a*.jsonl", 1),
        ("7aadf2ba*.jsonl", 1),
        ("95e1c018*.jsonl", 1),
        ("*01a226bf-1ea0*.jsonl", 1),
        # A document.
        ("session-2026-11-29T10-11-18f45fde.json", 2),
    ],
)
def test_of_a_posted_transcript_its_own_requests_count(name: str, requests: int) -> None:
    (path,) = TRANSCRIPTS.rglob(name)
    checked = check_transcript(path.read_bytes(), MIB, keeps_texts=False)
    assert checked.content.count(b"transcript.api_request") == requests


def test_an_exported_session_is_a_transcript() -> None:
    parts = [{"type": "step-finish", "id": "p", "tokens": {"input": 7, "output": 1}}]
    answer = {"id": "m2", "role": "assistant", "modelID": "x", "time": {"created": 2000}}
    copied = {**answer, "id": "m1", "time": {"created": 999}}
    messages = [{"info": info, "parts": parts} for info in (copied, answer)]
    session = {"info": {"id": "s", "time": {"created": 1000}}, "messages": messages}
    body = json.dumps(session, indent=2).encode("utf-8-sig")  # some shells begin a file with a mark
    checked = check_transcript(body, MIB, keeps_texts=False)
    assert (checked.records, checked.content.count(b"transcript.api_request")) == (1, 1)


def test_a_transcript_is_stored_once_and_without_its_text(service: Service) -> None:
    client, kind = service.client(), "application/x-ndjson"
    (path,) = TRANSCRIPTS.rglob("21f14f16*.jsonl")
    for body in (path.read_bytes(), path.read_bytes() + b"{broken\n"):
        answer = posted(client, body, "/v1/transcripts", kind)
        assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedLogRecords"] == "1"
    assert posted(client, b'{"a": 1}\n', "/v1/transcripts", kind).json()["code"] == 3
    stored = b"".join(received(service.workplace).values())
    assert b"zebra" not in stored
    assert b"/home/" not in stored

    service.workplace.ingest()
    service.workplace.build()
    (row,) = service.workplace.sessions().to_dicts()
    # Requests 1 to 7, 10, 11 and 14: those of the sub-agent, 8 and 9, have a file of their own.
    assert (row["api_requests"], row["input_tokens"]) == (10, 1000 + 28 + 10 + 11 + 14)
