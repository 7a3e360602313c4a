"""A record is named by what its agent wrote, whatever pipelines add to it on the way."""

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines import demo
from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.shapes import SHARED_COLUMNS
from evaluation_pipelines_tests.telemetry.captures import CLIS, REPORTED
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import attributes

GUESTS = Path(demo.__file__).parent / "recording" / "demo" / "guests.jsonl.xz"
SENT = {
    **{name: SAMPLES / name / "logs.jsonl" for name in CLIS},
    "opencode": REPORTED / "opencode-subagent-session.jsonl",
    "cline": REPORTED / "cline.jsonl",
    "genai": REPORTED / "genai-bedrock-price.jsonl",
    "copilot_chat": REPORTED / "copilot-no-cache-counts.jsonl",
    "guests": GUESTS,
}
"""Requests in each dialect, of its program or as public reports have them; guests mix them."""

OF_CLINE = "org-7"
"""The organization that Cline's records name."""

KNOWN = {*SHARED_COLUMNS, "event.name", "event.timestamp"}.union(
    *(dialect.identifying | dialect.columns.keys() for dialect in DIALECTS)
)

FOREIGN = st.dictionaries(
    st.sampled_from(
        ("host.name", "k8s.pod.name", "collector.id", "deployment.region", "organization.id")
    )
    | st.text(min_size=1, max_size=20).filter(lambda name: name not in KNOWN),
    st.text(max_size=9) | st.integers(-9, 9) | st.booleans() | st.just(["a", 1]),
    min_size=1,
    max_size=3,
)


@cache
def sent(name: str) -> list[bytes]:
    content = SENT[name].read_bytes()
    content = lzma.decompress(content) if SENT[name].suffix == ".xz" else content
    return content.rstrip(b"\n").split(b"\n")


def with_foreign(request: bytes, foreign: dict[str, Any]) -> bytes:
    """Return a request with attributes of a pipeline at every level, before and after its own."""
    document, added = json.loads(request), attributes(foreign)
    for of_resource in document.get("resourceLogs", []):
        _insert(of_resource.setdefault("resource", {}), added)
        for of_scope in of_resource.get("scopeLogs", []):
            _insert(of_scope.setdefault("scope", {}), added)
            for number, record in enumerate(of_scope.get("logRecords", [])):
                _insert(record, added[::-1] if number % 2 else added)
    return json.dumps(document).encode()


def _insert(level: dict[str, Any], added: list[dict[str, Any]]) -> None:
    level["attributes"] = [*added[:1], *(level.get("attributes") or []), *added[1:]]


@pytest.mark.parametrize("name", SENT)
@settings(max_examples=10)
@given(foreign=FOREIGN)
def test_foreign_attributes_change_nothing_of_genuine_events(
    name: str, foreign: dict[str, Any]
) -> None:
    """Nothing but whose they are, if they are given an organization."""
    options = {"keep_unknown_events": False}
    original = read(*sent(name), **options)
    dirty = read(*(with_foreign(record, foreign) for record in sent(name)), **options)
    assert not original.events.is_empty()
    differs = ["attributes", "has_content", "source_offset", "organization_id"]
    assert dirty.events.drop(differs).equals(original.events.drop(differs))
    assert dirty.names == original.names


def test_both_forms_in_one_folder_give_the_sessions_of_one(workplace: Workplace) -> None:
    """The second reading adds records that repeat others, and not one session or number.

    Its collector adds the organization to the resources of every second file, or to the records.
    """
    for name in SENT:
        workplace.land(f"{name}.jsonl", b"\n".join(sent(name)) + b"\n")
    workplace.ingest()
    workplace.build()
    before = _numbers(workplace)
    for number, name in enumerate(SENT):
        level = ("resource", "logRecords")[number % 2]
        requests = (
            with_foreign(record, {"host.name": "edge-1", "pod": 3}) for record in sent(name)
        )
        dirty = b"\n".join(_with_organization(request, level) for request in requests) + b"\n"
        workplace.land(f"{name}-again.jsonl", dirty)
    workplace.ingest()
    workplace.build()
    assert set(before["source_cli"]) == set(SENT) - {"copilot_chat", "guests"}
    after = _numbers(workplace)
    assert set(after["organization_id"]) == {OF_CLINE}
    assert after.drop("organization_id").equals(before.drop("organization_id"))


def _with_organization(request: bytes, level: str) -> bytes:
    """Return a request that names the organization in each resource, or in each record."""
    document = json.loads(request)
    for of_resource in document.get("resourceLogs", []):
        records = [record for of in of_resource["scopeLogs"] for record in of.get("logRecords", [])]
        for record in [of_resource["resource"]] if level == "resource" else records:
            _insert(record, attributes({"organization.id": OF_CLINE}))
    return json.dumps(document).encode()


def _numbers(workplace: Workplace) -> pl.DataFrame:
    return workplace.sessions().select(AGENT_SESSIONS.schema.names()).sort("session_key")


FROZEN = {
    "claude_code": "2f496a32",
    "codex": "4afc95b1",
    "gemini_cli": "4c89e139",
    "qwen_code": "4c89e139",
    "opencode": "61d56e6d",
    "cline": "6ea19fd1",
    "genai": "09b97ec9",
}


def test_the_attributes_that_identify_never_change() -> None:
    """With others, records that are sent again would be other events than those stored before."""
    found = {
        dialect.source_cli: hashlib.sha256(
            " ".join(sorted(dialect.identifying)).encode()
        ).hexdigest()[:8]
        for dialect in DIALECTS
    }
    assert {name: found[name] for name in FROZEN} == FROZEN
