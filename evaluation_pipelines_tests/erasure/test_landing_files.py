"""Landing files in every encoding, rewritten without what was forgotten."""

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject, SubjectKind
from evaluation_pipelines.erasure.forget import Forget, Forgot
from evaluation_pipelines.storage.lock import INGEST, held, holders
from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord
from evaluation_pipelines.telemetry.reading import open_documents
from evaluation_pipelines.telemetry.unread_files import ingest_lags
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    TRACES,
    of_ada,
    of_ben,
)
from evaluation_pipelines_tests.telemetry.test_messages import in_protobuf, prefixed, zstd
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path) as opened:
        yield opened


def forget(workplace: Workplace, kind: SubjectKind = "person", value: str = EMAIL) -> Forgot:
    return Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW).run(
        Subject(kind, value)
    )


def sessions(workplace: Workplace) -> list[str]:
    """Landed sessions in the order in which they were read."""
    return workplace.landed()["session_id"].unique(maintain_order=True).to_list()


def message(line: bytes) -> bytes:
    return prefixed(in_protobuf(json.loads(line)))


def packed_message(line: bytes) -> bytes:
    return prefixed(zstd(in_protobuf(json.loads(line))))


def json_message(line: bytes) -> bytes:
    return prefixed(zstd(line))


def pretty(line: bytes) -> bytes:
    return json.dumps(json.loads(line), indent=2).encode() + b"\n"


def array(line: bytes) -> bytes:
    """An array of a request of Ben and the given one."""
    return b"[" + of_ben("of-array").strip() + b"," + line.strip() + b"]\n"


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "logs.jsonl": lambda line: line,
    "logs.jsonl.gz": gzip.compress,
    "logs.jsonl.zst": zstd,
    "logs.pb": message,
    "packed.pb": packed_message,
    "json.pb": json_message,
    "logs.json": pretty,
    "array.jsonl": array,
}


def unpacked(workplace: Workplace, path: Path) -> bytes:
    """The lines and requests of a file, as ingest sees them."""
    with path.open("rb") as handle:
        return b"".join(line.text for line in open_documents(handle, workplace.settings).read(0))


def test_files_of_every_form_lose_what_was_forgotten_and_nothing_is_read_twice(
    workplace: Workplace,
) -> None:
    for number, (name, form) in enumerate(FORMS.items()):
        read = form(of_ben(f"read-{name}", number)) + form(of_ada(f"hers-{name}", number))
        workplace.land(name, read).chmod(0o640)
    assert workplace.ingest().counts.quarantined == 0
    for number, (name, form) in enumerate(FORMS.items()):
        hers = form(of_ada(f"unread-hers-{name}", 100 + number))
        workplace.land(name, hers + form(of_ben(f"unread-{name}", 100 + number)), "ab")

    traces = forget(workplace).landing

    assert {
        trace.path: (trace.kept_because, len(trace.offsets)) for trace in traces
    } == dict.fromkeys(FORMS, (None, 2))
    for name in FORMS:
        path = workplace.landing.root / name
        assert not [trace for trace in TRACES if trace.encode() in unpacked(workplace, path)]
        assert path.stat().st_mode & 0o777 == 0o640
    counts = workplace.ingest().counts
    # The array has an unread request of Ben with each line.
    assert (counts.events, counts.forgotten, counts.quarantined) == (4 * len(FORMS) + 8, 0, 0)
    assert workplace.ingest().counts.lines == 0
    for number, (name, form) in enumerate(FORMS.items()):
        workplace.land(name, form(of_ben(f"appended-{name}", 200 + number)), "ab")
    workplace.ingest()
    when = ("read", "unread", "appended")
    expected = {f"{moment}-{name}" for moment in when for name in FORMS}
    assert set(sessions(workplace)) == {*expected, "of-array"}


def test_a_request_of_several_people_keeps_the_records_of_the_others(workplace: Workplace) -> None:
    both = json.loads(of_ben())
    both["resourceLogs"] += json.loads(of_ada())["resourceLogs"]
    path = workplace.land("logs.jsonl", json.dumps(both).encode() + b"\n" + of_ada())
    workplace.ingest()

    forget(workplace)

    assert json.loads(path.read_bytes()) == json.loads(of_ben())
    (lag,) = ingest_lags(workplace.stores)[0]  # the file of before is not listed as gone
    assert (lag.path, lag.unread_bytes) == ("logs.jsonl", 0)


def test_metrics_and_lines_that_cannot_be_read_go_too(workplace: Workplace) -> None:
    attribute = [{"key": "user.email", "value": {"stringValue": EMAIL}}]
    metric = {"name": "tokens", "sum": {"dataPoints": [{"asInt": "1", "attributes": attribute}]}}
    metrics = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric, {"name": "free"}]}]}]}
    broken = f'{{"resourceLogs": oops "{EMAIL}"\n'.encode()
    path = workplace.land(
        "logs.jsonl", of_ben() + of_ada() + json.dumps(metrics).encode() + b"\n" + broken + b'{"cut'
    )
    workplace.ingest()

    forget(workplace)

    kept, rest = path.read_bytes().split(b"\n", 1)
    assert kept + b"\n" == of_ben()
    left = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "free"}]}]}]}
    assert json.loads(rest.split(b"\n")[0]) == left
    assert rest.split(b"\n")[1:] == [b'{"cut']


def test_a_file_that_another_program_has_open_is_listed_and_left(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", of_ben() + of_ada())
    workplace.ingest()
    with path.open("ab"):
        (trace,) = forget(workplace).landing
    assert (trace.path, trace.offsets) == ("logs.jsonl", (len(of_ben()),))
    assert "has it open" in (trace.kept_because or "")
    assert EMAIL.encode() in path.read_bytes()

    assert [landing_trace.kept_because for landing_trace in forget(workplace).landing] == [None]
    assert EMAIL.encode() not in path.read_bytes()


def test_a_file_that_the_service_writes_is_released_and_written_anew(workplace: Workplace) -> None:
    landing, ada = workplace.landing.root, ReceivedRecord("received/_", "jsonl", of_ada())
    files = ReceivedFiles(landing, 2**20, lambda: NOW)
    assert files.append([ada]) == [None]
    (path,) = landing.rglob("*.jsonl")
    path.chmod(0o640)
    workplace.ingest()
    assert files.append([ReceivedRecord("received/_", "jsonl", of_ben())]) == [None]  # meanwhile

    looking = Thread(target=lambda: _look_until_released(files))
    looking.start()
    (trace,) = forget(workplace).landing
    looking.join()

    assert (trace.path, trace.kept_because) == (path.relative_to(landing).as_posix(), None)
    assert path.read_bytes() == of_ben()
    assert path.stat().st_mode & 0o777 == 0o640
    assert files.append([ReceivedRecord("received/_", "jsonl", of_ben("later", 50))]) == [None]
    files.close()
    assert path.read_bytes() == of_ben()
    workplace.ingest()
    assert len(sessions(workplace)) == 2


def _look_until_released(files: ReceivedFiles) -> None:
    for _ in range(6000):
        if not files.close_finished():
            return
        time.sleep(0.01)


def test_a_file_with_another_name_is_listed_and_left(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", of_ada())
    os.link(path, path.with_name("kept.txt"))
    workplace.ingest()
    (trace,) = forget(workplace).landing
    assert "hard links" in (trace.kept_because or "")


def test_all_files_are_listed_and_left_while_telemetry_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float]()

    def counting(*names: Any, timeout_s: float) -> Any:
        waits.append(timeout_s)
        return held(*names, timeout_s=timeout_s)

    monkeypatch.setattr("evaluation_pipelines.erasure.landing_files.held", counting)
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        for number in range(8):
            workplace.land(f"{number}.jsonl", of_ada(f"sess-of-ada-{number}"))
        workplace.ingest()
        with held(workplace.ledger, INGEST):
            traces = forget(workplace).landing
    assert [trace.path for trace in traces] == [f"{number}.jsonl" for number in range(8)]
    assert all("being read" in (trace.kept_because or "") for trace in traces)
    assert waits == [1]  # once, not for each file


def test_telemetry_may_be_read_between_two_files(workplace: Workplace) -> None:
    for number in range(2):
        workplace.land(f"{number}.jsonl", of_ada(f"sess-of-ada-{number}"))
    workplace.ingest()
    found = dict[str, str]()

    def note(what: str) -> None:
        if what.startswith("landing "):
            (hold,) = (holder for holder in holders(workplace.ledger) if holder.name == INGEST)
            found[what] = hold.holder_id

    job = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW, done=note)
    job.run(Subject("person", EMAIL))
    assert found.keys() == {"landing 0.jsonl", "landing 1.jsonl"}
    assert len({*found.values()}) == 2


def test_a_file_that_takes_the_place_of_another_one_stays(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", of_ben() + of_ada())
    workplace.ingest()
    other = b"x" * path.stat().st_size

    def rotate(what: str) -> None:
        if what == "position in logs.jsonl":  # the next step is to replace it
            path.rename(path.with_name("logs.1.jsonl"))
            path.write_bytes(other)

    job = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW, done=rotate)
    (trace,) = job.run(Subject("person", EMAIL)).landing
    assert "replaced it" in (trace.kept_because or "")
    assert path.read_bytes() == other


def test_an_organization_goes_with_its_folders(workplace: Workplace) -> None:
    folder = workplace.landing.root / "received" / "orchard"
    workplace.land("received/orchard/2026-06-01/12-ab.jsonl", of_ada())
    workplace.land("received/globex/2026-06-01/12-cd.jsonl", of_ben())
    workplace.ingest()
    workplace.build()

    forget(workplace, "organization", "orchard")

    assert not folder.exists()
    assert sessions(workplace) == ["sess-of-ben"]
    root = workplace.landing.root.parent
    files = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in files if b"received/orchard" in path.read_bytes()]
