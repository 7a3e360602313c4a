"""Validation of a judge: labeled sessions are judged as real ones are, within the same budget."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

import polars as pl
import sqlalchemy as sa
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.budget import Budget
from evaluation_pipelines.judging.domain.validation import (
    ATTACKS,
    FLAWS,
    JUDGED_SESSIONS,
    METHODICAL,
    SEVERITIES,
    VALIDATION,
    LabeledSession,
    figures,
    mean_difference,
    twins,
)
from evaluation_pipelines.judging.endpoint.configured import judge_budget_limits
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_queries import score_of
from evaluation_pipelines.judging.ledger.score_store import Failure, ScoreStore, clear_left
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import RunStores, judge_by, utc_now
from evaluation_pipelines.judging.runner import Runner, terminated_as_interrupted
from evaluation_pipelines.judging.scoring import PromptInput, prepare
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES, JUDGE_VALIDATIONS
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.prices import PriceTable
from evaluation_pipelines.times import to_us

SHIPPED_SESSIONS = Path(__file__).resolve().parent / "labeled_sessions"

_MAX_BYTES = 1024 * 1024
_Text = Annotated[str, Field(min_length=1)]


class LabeledSessionsError(UserError):
    """A file of labeled sessions cannot be used; the message names the file and the problem."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Step(_Entry):
    tool: _Text | None = None
    parameters: dict[str, Any] = {}
    result: str | None = None
    error: str | None = None
    success: bool | None = None
    reply: _Text | None = None
    prompt: _Text | None = None

    @model_validator(mode="after")
    def _is_one_step(self) -> "_Step":
        given = [text for text in (self.tool, self.reply, self.prompt) if text is not None]
        if len(given) != 1:
            raise ValueError("a step has one of tool, reply and prompt")
        return self


class _Flaw(_Entry):
    kind: Literal[FLAWS]  # type: ignore[valid-type]
    severity: Literal["minor", "moderate", "severe"]
    why: _Text
    omit: list[str] = []
    replace: dict[str, _Step] = {}


class _Document(_Entry):
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    prompt: _Text
    agent_model: _Text | None = None
    steps: Annotated[dict[str, _Step], Field(min_length=1)]
    flaws: list[_Flaw] = []

    @model_validator(mode="after")
    def _has_a_call(self) -> "_Document":
        if not any(step.tool for step in self.steps.values()):
            raise ValueError("the steps have no tool call")
        return self


def load_labeled(folder: Path | None) -> list[LabeledSession]:
    """Load the shipped sessions, and those of ``folder`` if it is not ``None``.

    Raises:
        LabeledSessionsError: A file is unreadable or invalid, or two tasks have the same id.
    """
    folders = [SHIPPED_SESSIONS] + ([] if folder is None else [folder])
    sessions: list[LabeledSession] = []
    for path in (path for place in folders for path in _files(place)):
        loaded = _load(path)
        if any(session.task == loaded[0].task for session in sessions):
            raise LabeledSessionsError(f"{path}: another file has the id {loaded[0].task} already")
        sessions += loaded
    return sessions


def set_hash(sessions: Sequence[LabeledSession]) -> str:
    """Return the SHA-256 of a set of sessions: runs over the same set can be compared."""
    parts = [
        repr((session.name, session.kind, session.severity, session.steps)) for session in sessions
    ]
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})
    except OSError as error:
        raise LabeledSessionsError(f"{folder}: the folder cannot be read: {error}") from error
    if not found:
        raise LabeledSessionsError(f"{folder}: the folder has no .yaml file")
    return found


def _load(path: Path) -> list[LabeledSession]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LabeledSessionsError(f"{path}: larger than {_MAX_BYTES // 1024} KB. Split it")
        document = _Document.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        return twins(document.model_dump(exclude_unset=True))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LabeledSessionsError(f"{path}: cannot be read as YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, details['loc'])) or 'the file'}: {details['msg']}"
            for details in error.errors()
        )
        raise LabeledSessionsError(f"{path}: {faults}") from error
    except ValueError as error:
        raise LabeledSessionsError(f"{path}: {error}") from error


INTERRUPTED = "interrupted"
"""Reason of a run that was ended by Ctrl-C."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """A validation that has ended.

    Attributes:
        judge_model, rubric, prompt_hash: The judge.
        set_hash: Hash of the labeled sessions.
        started_at_us: Time of the beginning in microseconds since 1970.
        stop_reason: Why it ended early; ``None`` if all sessions were judged.
        sessions: JUDGED_SESSIONS.
    """

    judge_model: str
    rubric: str
    prompt_hash: str
    set_hash: str
    started_at_us: int
    stop_reason: str | None
    sessions: pl.DataFrame

    def record(self) -> dict[str, Any]:
        """Return the run with its figures as a document."""
        sessions, tokens = self.sessions, pl.col("input_tokens") + pl.col("output_tokens")
        spent = {"tokens": tokens, "cost_usd": pl.col("cost_usd")}
        known = [
            pl.when(~expression.is_null().any()).then(expression.sum()).alias(name)
            for name, expression in spent.items()
        ]
        names = ("judge_model", "rubric", "prompt_hash", "set_hash")
        return {
            **{name: getattr(self, name) for name in names},
            "started_at": (_EPOCH + timedelta(microseconds=self.started_at_us)).isoformat(),
            "stop_reason": self.stop_reason,
            "judged_sessions": sessions.height,
            "unreachable_sessions": sessions["is_unreachable"].sum(),
            "seconds": round(sessions["seconds"].sum(), 3),
            **sessions.select(known).row(0, named=True),
            "figures": figures(sessions).to_dicts(),
        }


@terminated_as_interrupted()
def validate(
    stores: Stores,
    plan: JudgePlan,
    sessions: Sequence[LabeledSession],
    max_cost_usd: float | None = None,
    progress: Progress | None = None,
) -> ValidationRun:
    """Judge labeled sessions by ``plan`` as a run judges real ones, and store what it said.

    The question about missing tools is not asked. Their judgments are kept with those of anchors:
    no list or average reads them. If the endpoint is down, after several useless replies in a row,
    at the end of the budget and by Ctrl-C the run ends with what it has.

    Raises:
        JudgeNotReadyError: No judge is configured.
        LockTimeoutError: Another process judges.
        LedgerError: The ledger cannot be used.
    """
    if (why_not := stores.settings.why_no_judge) is not None:
        raise JudgeNotReadyError(why_not)
    now, run_id, ledger = utc_now(), str(uuid4()), stores.ledger
    limits = judge_budget_limits(stores.settings)
    amounts = [limit for limit in (limits.max_run_usd, max_cost_usd) if limit is not None]
    budget = Budget(replace(limits, max_sessions=None, max_run_usd=min(amounts, default=None)))
    silent = replace(plan, asks_missing_tools=False)
    by_name = {session.name: session for session in sessions}
    # On the current date: an old date could expire.
    windows = [
        replace(session.window(), organization_id=run_id, session_date=now.date())
        for session in sessions
    ]
    candidates = [Candidate(window, silent, None) for window in windows]

    async def prompts() -> AsyncIterator[PromptInput]:
        for candidate in candidates:
            events = by_name[candidate.window.session_key].events()
            yield await asyncio.to_thread(prepare, candidate, events, stores.settings)

    async def judge_all(runner: Runner) -> None:
        await runner.judge(candidates, prompts())

    report, plans = JudgeReport(candidates=len(candidates)), load_plans(stores, now)
    with held(ledger, JUDGE) as hold:
        clear_left(ledger, hold)
        scores = ScoreStore(ledger, ANCHOR_SCORES, hold)
        run = RunStores(stores, plans, scores, hold, utc_now)
        try:
            judge_by(run, budget, report, VALIDATION, progress or Silent(), judge_all)
        except KeyboardInterrupt:
            report.stop_reason = INTERRUPTED
        found = _judged(ledger, run_id, sessions, report)
        left = Failure("left by a validation that has ended", retriable=False)
        for score in scores.open_scores():
            if score.score_triggered_by == VALIDATION:
                scores.fail(score.score_id, left, utc_now(), is_left=True)
    stop_reason = report.problem if found.height < len(sessions) else report.stop_reason
    judge = plan.setup.model, plan.rubric.name, plan.setup.prompt_hash
    ended = ValidationRun(*judge, set_hash(sessions), to_us(now), stop_reason, found)
    _store(ledger, run_id, ended)
    return ended


def _judged(
    ledger: Ledger, run_id: str, sessions: Sequence[LabeledSession], report: JudgeReport
) -> pl.DataFrame:
    """Return JUDGED_SESSIONS of a run in the order of ``sessions``."""
    query = sa.select(ANCHOR_SCORES).where(ANCHOR_SCORES.c.organization_id == run_id)
    with reading(ledger.engine) as connection:
        scores = [score_of(row) for row in connection.execute(query).mappings()]
    by_name = {score.session_key: score for score in scores}
    rows = [
        _row(session, score, report.unanswered.get(score.score_id))
        for session in sessions
        if (score := by_name.get(session.name)) is not None
        and (score.score_id in report.unanswered or not score.is_open)
    ]
    return pl.DataFrame(rows, JUDGED_SESSIONS, orient="row")


def _row(session: LabeledSession, score: Score, unanswered: str | None) -> dict[str, Any]:
    # A call that got no answer is no failure of the judge, unless it is rejected for good.
    is_unreachable = score.is_open or (bool(score.retriable) and unanswered is not None)
    read, has_replies = (score.input_tokens, score.cached_tokens), bool(score.turn_log)
    return {
        **{name: getattr(session, name) for name in ("task", "name", "kind", "severity", "attack")},
        "agent_family": session.agent_model and PriceTable().provider_of(session.agent_model),
        "total": score.total_score,
        "tags": score.failure_tags,
        "problem": unanswered if score.is_open else score.error_message,
        "input_tokens": None
        if has_replies and None in read
        else sum(tokens or 0 for tokens in read),
        "output_tokens": score.output_tokens if has_replies else 0,
        "cost_usd": score.judge_cost_usd if has_replies else 0.0,
        "seconds": (score.latency_ms or 0.0) / 1000,
        "is_unreachable": is_unreachable,
    }


_KEPT = ("judge_model", "rubric", "prompt_hash", "set_hash", "started_at_us", "stop_reason")


def _store(ledger: Ledger, run_id: str, run: ValidationRun) -> None:
    values = {name: getattr(run, name) for name in _KEPT}
    times = {"completed_at_us": to_us(utc_now())}
    insert = sa.insert(JUDGE_VALIDATIONS).values(run_id=run_id, **values, **times)
    with writing(ledger.engine) as connection:
        connection.execute(insert.values(sessions=run.sessions.to_dicts()))


def ended_runs(ledger: Ledger) -> list[ValidationRun]:
    """Return all runs, oldest first."""
    row = JUDGE_VALIDATIONS.c
    query = sa.select(*(row[name] for name in (*_KEPT, "sessions")))
    query = query.where(row.completed_at_us.is_not(None)).order_by(row.started_at_us, row.run_id)
    with reading(ledger.engine) as connection:
        rows = connection.execute(query).mappings().all()
    return [
        ValidationRun(
            **{name: record[name] for name in _KEPT},
            sessions=pl.DataFrame(record["sessions"], JUDGED_SESSIONS, orient="row"),
        )
        for record in rows
    ]


def validation_report(run: ValidationRun, ended: Sequence[ValidationRun]) -> dict[str, Any]:
    """Return a run as a document, with the runs over the same sessions to compare it with.

    Args:
        run: The run.
        ended: All runs, oldest first.

    Returns:
        ``record`` of the run with its ``sessions``, ``last``: that of the run of the same model
        before it with the same rubric, or ``None``, ``change_of_totals`` since then in points, and
        ``others``: the newest run of each other model or rubric.
    """
    newest = {
        (earlier.judge_model, earlier.rubric): earlier
        for earlier in ended
        if (earlier.set_hash, earlier.stop_reason) == (run.set_hash, None)
        and earlier.started_at_us < run.started_at_us
    }
    last = newest.pop((run.judge_model, run.rubric), None)
    change = mean_difference(run.sessions, (last.sessions if last else run.sessions.clear()))
    return {
        **run.record(),
        "sessions": run.sessions.to_dicts(),
        "last": last and last.record(),
        "change_of_totals": {name: getattr(change, name) for name in ("value", "low", "high")},
        "others": [newest[judge].record() for judge in sorted(newest)],
    }


def with_attacks(sessions: Sequence[LabeledSession]) -> list[LabeledSession]:
    """Return the sessions, and each attack in a severely flawed one of the tasks in turn.

    These follow once more without an attack: what chance alone does to their totals.
    """
    worst = max(SEVERITIES.values())
    flawed = [
        session for session in sessions if session.severity == worst and session.kind != METHODICAL
    ]
    severe = list({session.task: session for session in flawed}.values())
    attacked = [
        severe[number % len(severe)].attacked(attack.name, attack.text)
        for number, attack in enumerate(ATTACKS)
        if severe
    ]
    return [*sessions, *attacked, *(session.again() for session in severe[: len(ATTACKS)])]
