"""What is measured at one size: each function prepares a folder and returns processor seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import process_time, sleep

from evaluation_pipelines.comparison.compare_models import compare_models
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.scorecards import overrides
from evaluation_pipelines.telemetry.quarantine.entries import newest_entries
from evaluation_pipelines.telemetry.unread_files import find_unread_files
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session
from evaluation_pipelines_tests.world.scorecards import REGISTERED_AT, profile, registered

_SESSIONS = 500


def build_one_session(folder: str, size: int) -> float:
    """Build of a date with one session of ``size`` events."""
    calls = [
        claude("tool_result", n / 10, tool_name="Read", success="true", tool_use_id=f"call-{n}")
        for n in range(size)
    ]
    lines = (line(*calls[start : start + 100]) for start in range(0, size, 100))
    return _build(folder, b"".join(lines))


def build_sessions(folder: str, size: int) -> float:
    """Build of a date of ``size`` sessions."""
    return _build(folder, _sessions(size))


def build_after_dates(folder: str, size: int) -> float:
    """Build of a new date of 500 sessions, after ``size`` dates of ten."""
    with _workplace(folder) as work:
        for day in range(size):
            work.land(f"{day}.jsonl", _sessions(10, -day * DAY_S - DAY_S, f"day-{day}"))
        work.ingest()
        work.build()
        work.land("new.jsonl", _sessions(_SESSIONS))
        work.ingest()
        return _processor_seconds(work.build)


def look_for_files(folder: str, size: int) -> float:
    """A look at ``size`` files of which one has changed since the last one."""
    with _workplace(folder) as work:
        for number in range(size):
            work.land(f"{number}.jsonl", session(f"s-{number}"))
        work.ingest()
        sleep(2.1)  # a file that was changed just now is opened by every look
        find_unread_files(work.stores)
        work.land("0.jsonl", session("another", 9), "ab")
        return _processor_seconds(lambda: find_unread_files(work.stores))


def compare_people(folder: str, size: int) -> float:
    """Comparison of two models that ``size`` people used for four sessions each."""
    with _workplace(folder) as work:
        lines = [_session_of(person, run) for person in range(size) for run in range(4)]
        work.land("a.jsonl", b"".join(lines))
        work.ingest()
        work.build()
        question = Question(datetime(2020, 1, 1, tzinfo=NOW.tzinfo), NOW + timedelta(days=1))
        models = compare_models(work.stores, question, NOW).models
        assert models["runs"].to_list() == [2 * size, 2 * size]
        return _processor_seconds(lambda: compare_models(work.stores, question, NOW))


def build_with_profiles(folder: str, size: int) -> float:
    """Build of 500 sessions that ``size`` profiles match."""
    with _workplace(folder) as work:
        profiles = registered(*(profile(id=f"profile-{number}") for number in range(size)))
        ProfileStore(work.ledger).register_all(profiles, REGISTERED_AT, ())
        work.land("a.jsonl", _sessions(_SESSIONS))
        work.ingest()
        return _processor_seconds(work.build)


def list_quarantine(folder: str, size: int) -> float:
    """List of the 20 newest of ``size`` entries."""
    with _workplace(folder) as work:
        work.land("a.jsonl", b"".join(b"not JSON %d\n" % number for number in range(size)))
        work.ingest()
        return _processor_seconds(lambda: newest_entries(work.stores, 20))


def import_overrides(folder: str, size: int) -> float:
    """Import of an override of each of ``size`` sessions."""
    with _built(folder, size) as work:
        return _processor_seconds(lambda: _import(work, size))


def build_with_overrides(folder: str, size: int) -> float:
    """Build of a date of ``size`` sessions with an override each."""
    with _built(folder, size) as work:
        _import(work, size)
        return _processor_seconds(work.build)


def _import(work: Workplace, size: int) -> None:
    rows = (f"s-{number},50,ann,looked at it\n" for number in range(size))
    result = overrides.import_overrides(
        work.stores, ["session,score,annotator,reason\n", *rows], NOW
    )
    assert result.stored == size


@contextmanager
def _built(folder: str, sessions: int) -> Iterator[Workplace]:
    with _workplace(folder) as work:
        ProfileStore(work.ledger).register(profile(), REGISTERED_AT)
        work.land("a.jsonl", _sessions(sessions))
        work.ingest()
        work.build()
        yield work


def _build(folder: str, telemetry: bytes) -> float:
    with _workplace(folder) as work:
        work.land("a.jsonl", telemetry)
        work.ingest()
        return _processor_seconds(work.build)


def _sessions(count: int, second: float = 0, name: str = "s") -> bytes:
    return b"".join(session(f"{name}-{number}", second) for number in range(count))


def _session_of(person: int, run: int) -> bytes:
    identity = {"session__id": f"s-{person}-{run}", "user__id": f"person-{person}"}
    tokens = {"input_tokens": 100 + person, "output_tokens": 9 * run}
    request = claude("api_request", 1, model=f"model-{run % 2}", **tokens, **identity)
    call = claude("tool_result", 2, tool_name="Read", success="true", **identity)
    return line(claude("user_prompt", 0, **identity), request, call)


@contextmanager
def _workplace(folder: str) -> Iterator[Workplace]:
    with open_workplace(Path(folder)) as work:
        yield work


def _processor_seconds(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began
