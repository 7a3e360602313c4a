"""The three data folders, each made by the commands that a user has."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.cli import conventions
from evaluation_pipelines.demo.landing import put_identities
from evaluation_pipelines.demo.scripted_judge import answer as demo_answer
from evaluation_pipelines.scorecards.audit_review import AuditReview
from evaluation_pipelines.scorecards.audit_samples import draw_samples, undrawn_dates
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_journal import Received
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    cut_by_length,
    prose_score,
    refuses,
    says,
)
from evaluation_pipelines_tests.judge_wire import WireRequest
from evaluation_pipelines_tests.parity.pinned import NOW, Datetime, Ids
from evaluation_pipelines_tests.program import Program, Ran
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry

DATA = Path(__file__).parents[1] / "data"
_END = date(2026, 11, 21)
_GROWING = "agents.jsonl"


_JUDGED = {
    "EVAL_JUDGE_MODEL": "judge-1",
    "EVAL_JUDGE_INPUT_USD_PER_MTOK": "1",
    "EVAL_JUDGE_OUTPUT_USD_PER_MTOK": "10",
    "EVAL_PEOPLE_VIEW": "person",
}
_FAULTS = (refuses(), cut_by_length(), prose_score())
_ONE_OF = 10
_usual_body = JudgeEndpoint._body


def _body_by_content(
    judge: JudgeEndpoint, _: Scripted, received: Received, request: WireRequest
) -> bytes:
    """Answer by the content of the session alone: the order and the words of fences vary."""
    text = demo_answer(request.body["messages"])
    number = hashlib.sha256(text.encode()).digest()[0] % _ONE_OF
    usage = {"prompt_tokens": 1000 + len(text) % 500, "completion_tokens": 100 + len(text) % 50}
    answer = _FAULTS[number] if number < len(_FAULTS) else says(text)
    return _usual_body(judge, replace(answer, usage=usage), received, request)


class Captured:
    """What a run of the program printed, in place of pytest's fixture."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Catch what is printed from now on."""
        sys.stdout, sys.stderr = (TextIOWrapper(BytesIO(), "utf-8") for _ in range(2))

    def readouterr(self) -> list[str]:
        """Return output and errors since the last time."""
        streams: Any = sys.stdout, sys.stderr
        for each in streams:
            each.flush()
        self.begin()
        return [each.buffer.getvalue().decode() for each in streams]


class PinnedProgram(Program):
    """The program whose ids depend on the number of the run alone."""

    runs = 0

    def begin(self) -> None:
        """Begin the next run, or a step in place of one."""
        self.runs += 1
        Ids.begin(str(self.runs))

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run it once."""
        self.begin()
        return super().__call__(*arguments, stdin=stdin)


class Steps:
    """The program in a folder, at the pinned time."""

    def __init__(self, program: PinnedProgram) -> None:
        self.program = program

    def run(self, *commands: str) -> None:
        """Run commands that must end well, or partly so."""
        for command in commands:
            ran = self.program(*command.split())
            if ran.code not in (0, conventions.PARTLY):
                raise RuntimeError(f"{command}: {ran.code}\n{ran.out}{ran.err}")

    def land(self, name: str, content: bytes, mode: str = "wb") -> None:
        """Write to a landing file at the pinned time."""
        now_s = Datetime.pinned.timestamp()
        os.utime(self.program.land(name, content, mode), (now_s, now_s))


def demo(steps: Steps) -> None:
    """All steps of the demo, whose recording ends today."""
    steps.run("demo")


def captures(steps: Steps) -> None:
    """The genuine captures, and the inputs after reports of users."""
    for path in sorted(DATA.glob("*/*.jsonl")):
        if path.parent.name not in ("judge_replies", "judge_validation", "tool_calls"):
            steps.land(f"{path.parent.name}/{path.name}", path.read_bytes())
    steps.run("ingest", "build", "reputation update", "publish")


def installation(steps: Steps) -> None:
    """Three days of a team: resent, cut, late, judged, overridden, under audit, forgotten."""
    arrived = _generated(steps.program.folder / "generated")
    growing, late = arrived.pop(_GROWING), min(arrived)
    late_content = arrived.pop(late)
    put_identities(steps.program.folder / "data" / "identities.yaml")
    Datetime.pinned = NOW - timedelta(days=9)
    for name, content in arrived.items():
        steps.land(name, content)
    steps.land(_GROWING, growing[: len(growing) // 2])
    steps.run("ingest", "build")
    steps.run("judge run --by eve --max-sessions 25")
    steps.run("build", "publish")
    Datetime.pinned = NOW - timedelta(days=8)
    steps.land(late, late_content)
    steps.land(_GROWING, growing[len(growing) // 2 :], "ab")
    steps.run("ingest", "build")
    steps.run("judge run --by eve --max-sessions 25")
    steps.run("build", "reputation update")
    _overrides(steps)
    Datetime.pinned = NOW - timedelta(days=7)
    names = [key.partition("#")[0] for _, key in _sessions(steps)[3:]]
    steps.run(f"forget --session {next(each for each in names if each.encode() in late_content)}")
    steps.land("sent-again.jsonl", late_content)
    steps.run("ingest", "build", "reputation update", "publish")
    Datetime.pinned = NOW


def _generated(folder: Path) -> dict[str, bytes]:
    """Name and content of the landing files."""
    extent = Extent(days=3, sessions_per_day=14)
    write_telemetry(folder, seed=7, end=_END, extent=extent, rotate_bytes=900_000)
    return {each.name: each.read_bytes() for each in sorted(folder.glob("*.jsonl"))}


def _sessions(steps: Steps) -> list[tuple[str, str]]:
    """Organization and key of the sessions."""
    items = steps.program("sessions", "--limit", "1000", "--format", "json").items()
    return sorted((each["organization_id"], each["session_key"]) for each in items)


def _overrides(steps: Steps) -> None:
    for number, (organization, session) in enumerate(_sessions(steps)[:3]):
        said = ("--annotator", "ann", "--reason", "seen", "--organization", organization)
        ran = steps.program("scorecards", "override", session, "--score", str(20 * number), *said)
        assert ran.code == 0, ran.err
    steps.program.begin()
    with open_stores(load_settings()) as stores:  # a reviewer begins a round and sees the first
        now = Datetime.pinned
        draw_samples(stores, undrawn_dates(stores, now.date()), now)
        review = AuditReview(stores, "eve")
        review.begin(now)
        if (sample := review.next_sample(frozenset(), now)) is not None:
            review.show(sample, now)


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Steps]:
    """Make a data folder; its settings hold within the block."""
    printed = sys.stdout, sys.stderr
    with pytest.MonkeyPatch.context() as patch, open_judge_endpoint() as judge:
        steps = Steps(PinnedProgram(folder, patch, Captured()))  # type: ignore[arg-type]
        scores = (f"aspen-4,{50 + n % 40}\nbirch-4,{45 + n % 30}\n" for n in range(60))
        (folder / "runs.csv").write_text(f"model,score\n{''.join(scores)}")
        patch.setattr(JudgeEndpoint, "_body", _body_by_content)
        patch.setenv("EVAL_SERVICE_REQUESTS_PER_SECOND", "1000000")
        if name == "installation":
            patch.setenv("OPENAI_BASE_URL", judge.base_url)
            for setting, value in _JUDGED.items():
                patch.setenv(setting, value)
        try:
            {"demo": demo, "captures": captures, "installation": installation}[name](steps)
            yield steps
        finally:
            sys.stdout, sys.stderr = printed
