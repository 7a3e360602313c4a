"""A record is named by what its agent wrote, whatever pipelines add to it on the way."""

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.shapes import SHARED_COLUMNS
from evaluation_pipelines_tests.otlp_builders import attributes
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.workplace import Workplace

CLIS = ("claude_code", "codex", "gemini_cli", "qwen_code", "opencode", "cline")
DATA = Path(__file__).parents[1] / "data"

KNOWN = {*SHARED_COLUMNS, "event.name", "event.timestamp"}.union(
    *(each.identifying | each.columns.keys() for each in DIALECTS)
)

FOREIGN = st.dictionaries(
    st.sampled_from(
        ("host.name", "k8s.pod.name", "collector.id", "deployment.region", "cloud.zone")
    )
    | st.text(min_size=1, max_size=20).filter(lambda name: name not in KNOWN),
    st.text(max_size=9) | st.integers(-9, 9) | st.booleans() | st.just(["a", 1]),
    min_size=1,
    max_size=3,
)


def sent(cli: str) -> list[bytes]:
    """Return the requests of an agent program as it sent them; those of Cline are made up."""
    return (
        ((DATA if cli == "cline" else SAMPLES) / cli / "logs.jsonl")
        .read_bytes()
        .rstrip(b"\n")
        .split(b"\n")
    )


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


@pytest.mark.parametrize("cli", CLIS)
@given(foreign=FOREIGN)
def test_foreign_attributes_change_nothing_of_genuine_events(
    cli: str, foreign: dict[str, Any]
) -> None:
    settings = {"keep_unknown_events": False}
    original = read(*sent(cli), **settings)
    dirty = read(*(with_foreign(each, foreign) for each in sent(cli)), **settings)
    differs = ["attributes", "has_content", "source_offset"]
    assert dirty.events.drop(differs).equals(original.events.drop(differs))
    assert dirty.names == original.names


def test_both_forms_in_one_folder_give_the_sessions_of_one(workplace: Workplace) -> None:
    """The second reading adds records that repeat others, and not one session or number."""
    for cli in CLIS:
        workplace.land(f"{cli}.jsonl", b"\n".join(sent(cli)) + b"\n")
    workplace.ingest()
    workplace.build()
    before = _numbers(workplace)
    foreign = {"host.name": "edge-1", "k8s.pod.name": "p-7", "collector.id": 3}
    for cli in CLIS:
        dirty = b"\n".join(with_foreign(each, foreign) for each in sent(cli)) + b"\n"
        workplace.land(f"{cli}-again.jsonl", dirty)
    workplace.ingest()
    workplace.build()
    assert before["source_cli"].n_unique() == 5  # OpenCode's own logs have no session
    assert _numbers(workplace).equals(before)


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
        each.source_cli: hashlib.sha256(" ".join(sorted(each.identifying)).encode()).hexdigest()[:8]
        for each in DIALECTS
    }
    assert {name: found[name] for name in FROZEN} == FROZEN
