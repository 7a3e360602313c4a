"""Validation of a judge: labelled sessions are judged as real ones are, within the same budget."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from uuid import uuid4

import sqlalchemy as sa
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.domain.attacks import ATTACKS
from evaluation_pipelines.judging.domain.blame import Blame, Suspect
from evaluation_pipelines.judging.domain.budget import (
    Budget,
    BudgetLimits,
    DayReservation,
    Deferred,
    MeteredCall,
    PlannedCall,
    worst_case_usd,
)
from evaluation_pipelines.judging.domain.conversation import JudgeRequest, Judgment, why_useless
from evaluation_pipelines.judging.domain.prompt.messages import estimated_message_tokens
from evaluation_pipelines.judging.domain.prompt.rubric import FAILURE_TAGS
from evaluation_pipelines.judging.domain.validation import (
    SEVERITIES,
    Figure,
    JudgedSession,
    LabelledSession,
    figures,
    mean_difference,
    twins,
)
from evaluation_pipelines.judging.endpoint.client import JudgeAnswer, JudgeClient, ask_metered
from evaluation_pipelines.judging.endpoint.configured import (
    judge_budget_limits,
    judge_client,
    judge_pricing,
)
from evaluation_pipelines.judging.endpoint.limits import CircuitOpenError
from evaluation_pipelines.judging.endpoint.replies import BudgetReachedError, Fault, JudgeCallError
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.day_budget import check_day_budget, lock_day_budget
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import ScoreStore, clear_left
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import RunStores, judge_by, utc_now
from evaluation_pipelines.judging.scoring import SYMPTOMS, prepare
from evaluation_pipelines.judging.termination import terminated_as_interrupted
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_VALIDATIONS
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.prices import PriceTable
from evaluation_pipelines.times import to_us

_ROW = JUDGE_VALIDATIONS.c


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """A validation: its judge, and the labelled sessions with their verdicts.

    Attributes:
        run_id: UUID.
        judge_model, rubric, prompt_hash: The judge.
        set_hash: Hash of the labelled sessions.
        started_at_us: Time of the beginning in microseconds since 1970.
        completed_at_us: Time of the end; ``None`` if the run was killed.
        stop_reason: Why it ended early; ``None`` if all sessions were judged.
        sessions: The judged sessions.
    """

    run_id: str
    judge_model: str
    rubric: str
    prompt_hash: str
    set_hash: str
    started_at_us: int
    completed_at_us: int | None = None
    stop_reason: str | None = None
    sessions: tuple[JudgedSession, ...] = ()


class ValidationStore:
    """Reader and writer of ``judge_validations``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(self, run: ValidationRun) -> None:
        """Insert a run without sessions."""
        values = {**asdict(run), "sessions": [], "booked_at_us": run.started_at_us}
        with writing(self._engine) as connection:
            connection.execute(sa.insert(JUDGE_VALIDATIONS).values(values))

    def reserve(self, run_id: str, reservation: DayReservation, now: datetime) -> None:
        """Book the most that a call can cost, before it is made.

        Raises:
            DayBudgetReachedError: The cost does not fit into the daily budget.
        """
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            check_day_budget(connection, reservation, now)
            self._book(connection, run_id, reservation.now_usd, now)

    def settle(self, run_id: str, unspent_usd: float, now: datetime) -> None:
        """Return the part of a booked amount that a call did not cost."""
        with writing(self._engine) as connection:
            self._book(connection, run_id, -unspent_usd, now)

    def end(
        self,
        run_id: str,
        sessions: Sequence[JudgedSession],
        stop_reason: str | None,
        now: datetime,
    ) -> ValidationRun:
        """Store the verdicts of a run."""
        values = {
            "sessions": [asdict(each) for each in sessions],
            "stop_reason": stop_reason,
            "completed_at_us": to_us(now),
        }
        update = sa.update(JUDGE_VALIDATIONS).where(_ROW.run_id == run_id).values(values)
        with writing(self._engine) as connection:
            row = connection.execute(update.returning(JUDGE_VALIDATIONS)).mappings().one()
            return _run(row)

    def ended(self) -> list[ValidationRun]:
        """Return all runs that have ended, oldest first."""
        query = sa.select(JUDGE_VALIDATIONS).where(_ROW.completed_at_us.is_not(None))
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_ROW.started_at_us, _ROW.run_id)).mappings()
            return [_run(row) for row in rows]

    def _book(self, connection: sa.Connection, run_id: str, usd: float, now: datetime) -> None:
        booked_usd = sa.func.coalesce(_ROW.booked_cost_usd, 0.0) + usd
        update = sa.update(JUDGE_VALIDATIONS).where(_ROW.run_id == run_id)
        connection.execute(update.values(booked_cost_usd=booked_usd, booked_at_us=to_us(now)))


def _run(row: sa.RowMapping) -> ValidationRun:
    values: dict[str, Any] = {name: row[name] for name in ValidationRun.__slots__}
    sessions = tuple(_session(each) for each in row["sessions"])
    return ValidationRun(**{**values, "sessions": sessions})


def _session(stored: dict[str, Any]) -> JudgedSession:
    tags = stored["tags"]
    return JudgedSession(**{**stored, "tags": None if tags is None else tuple(tags)})


SHIPPED_SESSIONS = Path(__file__).resolve().parent / "labelled_sessions"

_MAX_BYTES = 1024 * 1024
_Text = Annotated[str, Field(min_length=1)]


class LabelledSessionsError(UserError):
    """A file of labelled sessions cannot be used; the message names the file and the problem."""


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
        given = [each for each in (self.tool, self.reply, self.prompt) if each is not None]
        if len(given) != 1:
            raise ValueError("a step has one of tool, reply and prompt")
        return self


class _Flaw(_Entry):
    kind: Literal[FAILURE_TAGS]  # type: ignore[valid-type]
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
        if not any(each.tool for each in self.steps.values()):
            raise ValueError("the steps have no tool call")
        return self


def load_labelled(folder: Path | None) -> list[LabelledSession]:
    """Load the shipped sessions, and those of ``folder`` if it is not ``None``.

    Raises:
        LabelledSessionsError: A file is unreadable or invalid, or two tasks have the same id.
    """
    folders = [SHIPPED_SESSIONS] + ([] if folder is None else [folder])
    sessions: list[LabelledSession] = []
    for path in (path for each in folders for path in _files(each)):
        loaded = _load(path)
        if any(each.task == loaded[0].task for each in sessions):
            raise LabelledSessionsError(f"{path}: another file has the id {loaded[0].task} already")
        sessions += loaded
    return sessions


def set_hash(sessions: Sequence[LabelledSession]) -> str:
    """Return the SHA-256 of a set of sessions: runs over the same set can be compared."""
    parts = [repr((each.name, each.kind, each.severity, each.steps)) for each in sessions]
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(each for each in folder.iterdir() if each.suffix in {".yaml", ".yml"})
    except OSError as error:
        raise LabelledSessionsError(f"{folder}: the folder cannot be read: {error}") from error
    if not found:
        raise LabelledSessionsError(f"{folder}: the folder has no .yaml file")
    return found


def _load(path: Path) -> list[LabelledSession]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LabelledSessionsError(f"{path}: larger than {_MAX_BYTES // 1024} KB; split it")
        document = _Document.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        return twins(document.model_dump(exclude_unset=True))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LabelledSessionsError(f"{path}: cannot be read as YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}"
            for each in error.errors()
        )
        raise LabelledSessionsError(f"{path}: {faults}") from error
    except ValueError as error:
        raise LabelledSessionsError(f"{path}: {error}") from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """A run with its figures, and the runs to compare it with.

    Attributes:
        run: The run.
        figures: Its figures.
        last: The run of the same model, rubric name and sessions before it; ``None`` for the first.
        change: Mean change of the totals since then, in points.
        others: Newest run of each other model over the same sessions, by model.
    """

    run: ValidationRun
    figures: list[Figure]
    last: ValidationRun | None
    change: Estimate
    others: list[ValidationRun]

    def record(self) -> dict[str, Any]:
        """Return everything as a document."""
        change = self.change
        return {
            **_facts(self.run),
            "figures": [_figure(each) for each in self.figures],
            "sessions": [
                {name: getattr(each, name) for name in JudgedSession.__slots__}
                for each in self.run.sessions
            ],
            "last": None if self.last is None else self._compared(self.last),
            "change_of_totals": {"value": change.value, "low": change.low, "high": change.high},
            "other_models": [self._compared(each) for each in self.others],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per run and figure."""
        runs = [self.run, *([] if self.last is None else [self.last]), *self.others]
        return [{**_facts(run), **_figure(each)} for run in runs for each in figures(run.sessions)]

    def _compared(self, run: ValidationRun) -> dict[str, Any]:
        return {**_facts(run), "figures": [_figure(each) for each in figures(run.sessions)]}


def validation_report(run: ValidationRun, ended: Sequence[ValidationRun]) -> ValidationReport:
    """Return the report of ``run``; ``ended`` are all runs, oldest first."""
    earlier = [
        each
        for each in ended
        if each.set_hash == run.set_hash
        and each.rubric == run.rubric
        and each.stop_reason is None
        and each.started_at_us < run.started_at_us
    ]
    newest = {each.judge_model: each for each in earlier}
    last = newest.pop(run.judge_model, None)
    change = mean_difference(run.sessions, last.sessions if last else ())
    others = [newest[model] for model in sorted(newest)]
    return ValidationReport(run, figures(run.sessions), last, change, others)


def spent(run: ValidationRun) -> tuple[float, int | None, float | None]:
    """Return seconds, tokens and US dollars of a run; ``None`` if a part of them is unknown."""
    parts = [(each.input_tokens, each.output_tokens, each.cost_usd) for each in run.sessions]
    tokens = [None if None in each[:2] else (each[0] or 0) + (each[1] or 0) for each in parts]
    known = [each for each in tokens if each is not None]
    costs = [each[2] for each in parts if each[2] is not None]
    return (
        sum(each.seconds for each in run.sessions),
        sum(known) if len(known) == len(parts) else None,
        sum(costs) if len(costs) == len(parts) else None,
    )


def _facts(run: ValidationRun) -> dict[str, Any]:
    seconds, tokens, cost_usd = spent(run)
    return {
        "judge_model": run.judge_model,
        "rubric": run.rubric,
        "prompt_hash": run.prompt_hash,
        "set_hash": run.set_hash,
        "started_at": (_EPOCH + timedelta(microseconds=run.started_at_us)).isoformat(),
        "stop_reason": run.stop_reason,
        "judged_sessions": len(run.sessions),
        "unreachable_sessions": sum(each.is_unreachable for each in run.sessions),
        "seconds": round(seconds, 3),
        "tokens": tokens,
        "cost_usd": cost_usd,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    estimate = figure.estimate
    return {
        "figure": figure.name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "number": figure.number,
    }


_Number = TypeVar("_Number", int, float)


INTERRUPTED = "interrupted"
"""Reason of a run that was ended by Ctrl-C."""


class _StoppedError(Exception):
    """The run cannot go on: the endpoint is down, or the budget is used up."""


@terminated_as_interrupted()
def validate(
    stores: Stores,
    plan: JudgePlan,
    sessions: Sequence[LabelledSession],
    max_cost_usd: float | None = None,
    progress: Progress | None = None,
) -> ValidationRun:
    """Judge labelled sessions by ``plan`` and store the result in the ledger.

    The score turn with its reminder is asked, not the question about missing tools. If the endpoint
    is down, after several useless replies in a row, at the end of the budget and by Ctrl-C the run
    ends with what it has.

    Raises:
        JudgeNotReadyError: No judge is configured.
        LedgerError: The ledger cannot be used.
    """
    now, model = utc_now(), plan.setup.model
    client = judge_client(stores.settings, now, model)
    if client is None:
        raise JudgeNotReadyError(stores.settings.why_no_judge or "no judge is configured")
    run = ValidationRun(
        *(str(uuid4()), model, plan.rubric.name, plan.setup.prompt_hash, set_hash(sessions)),
        started_at_us=to_us(now),
    )
    store = ValidationStore(stores.ledger)
    limits = judge_budget_limits(stores.settings)
    amounts = [each for each in (limits.max_run_usd, max_cost_usd) if each is not None]
    budget = Budget(replace(limits, max_sessions=None, max_run_usd=min(amounts, default=None)))
    silent = replace(plan, asks_missing_tools=False)
    blame = Blame(stores.settings.judge_breaker_failures)
    work = _Validation(stores, store, run, client, budget, silent, blame, progress or Silent())
    plans = load_plans(stores, now)

    with held(stores.ledger, JUDGE) as hold:
        clear_left(stores.ledger, hold)
        store.begin(run)
        serving = RunStores(stores, plans, ScoreStore(stores.ledger, hold=hold), hold, utc_now)
        report, judge_all = JudgeReport(), lambda _: work.judge_all(sessions)
        try:
            judge_by(serving, Budget(BudgetLimits()), report, "validation", Silent(), judge_all)
        except KeyboardInterrupt:
            work.stop_reason = INTERRUPTED
    return store.end(run.run_id, work.result(sessions), work.stop_reason, utc_now())


def with_attacks(sessions: Sequence[LabelledSession]) -> list[LabelledSession]:
    """Return the sessions, and each attack in a severely flawed one of the tasks in turn.

    These follow once more without an attack: what chance alone does to their totals.
    """
    worst = max(SEVERITIES.values())
    severe = list({each.task: each for each in sessions if each.severity == worst}.values())
    attacked = [
        severe[number % len(severe)].attacked(each.name, each.text)
        for number, each in enumerate(ATTACKS)
        if severe
    ]
    return [*sessions, *attacked, *(each.again() for each in severe[: len(ATTACKS)])]


@dataclass(slots=True)
class _Validation:
    """Work of one run: sessions are judged concurrently, each call reserved before it is made."""

    stores: Stores
    store: ValidationStore
    run: ValidationRun
    client: JudgeClient
    budget: Budget
    plan: JudgePlan
    blame: Blame
    progress: Progress
    judged: list[JudgedSession] = field(default_factory=list)
    stop_reason: str | None = None

    async def judge_all(self, sessions: Sequence[LabelledSession]) -> None:
        """Judge the sessions until all are judged or the run is stopped."""
        self.progress.begin("judging labelled sessions", len(sessions))
        waiting = iter(sessions)
        async with self.client:
            workers = self.stores.settings.judge_concurrency
            await asyncio.gather(*(self._work(waiting) for _ in range(workers)))

    def result(self, sessions: Sequence[LabelledSession]) -> list[JudgedSession]:
        """Return what was judged, in the order of the sessions.

        Sessions that the endpoint refused alike, as it would any other, count as unreachable.
        """
        _, due = self.blame.settle(is_endpoint_down=self.stop_reason is not None)
        unreachable = {each.score_id for each in due}
        by_name = {each.name: each for each in self.judged}
        return [
            replace(found, is_unreachable=found.is_unreachable or found.name in unreachable)
            for found in (by_name.get(each.name) for each in sessions)
            if found is not None
        ]

    async def _work(self, waiting: Iterator[LabelledSession]) -> None:
        for session in waiting:
            if self.stop_reason is not None:
                return
            try:
                self.judged.append(await self._judge(session))
                self._stop(self.blame.stop_reason())
            except _StoppedError as stopped:
                self._stop(str(stopped))
            self.progress.advance(1)

    def _stop(self, reason: str | None) -> None:
        """Start no further session, if there is a reason; the first one stays."""
        self.stop_reason = self.stop_reason or reason

    async def _judge(self, session: LabelledSession) -> JudgedSession:
        candidate = Candidate(session.window(), self.plan, None)
        prompt = await asyncio.to_thread(prepare, candidate, session.events(), self.stores.settings)
        conversation, answers = prompt.conversation, list[JudgeAnswer]()
        judged = JudgedSession(
            *(session.task, session.name, session.kind, session.severity, session.attack),
            agent_family=_family(session.agent_model),
        )
        try:
            while (outcome := conversation.outcome()) is None:
                for request in conversation.open_requests():
                    answers.append(await self._ask(request))
                    conversation = conversation.with_reply(request.turn, answers[-1].reply)
        except JudgeCallError as error:
            is_unreachable = self._blame_for(session, error)
            failed = replace(judged, problem=error.reason, is_unreachable=is_unreachable)
            return _with_calls(failed, answers)
        if not isinstance(outcome, Judgment):
            return _with_calls(replace(judged, problem=outcome.reason), answers)
        verdict = outcome.verdict
        scored = replace(judged, total=verdict.total, tags=verdict.failure_tags)
        return _with_calls(scored, answers)

    def _blame_for(self, session: LabelledSession, error: JudgeCallError) -> bool:
        """Note a failed call; return whether the endpoint alone is to blame for it."""
        symptom = SYMPTOMS.get(error.fault, "other")
        self.blame.add(Suspect(session.name, symptom, error.reason, error.retriable))
        if error.fault is Fault.UNREACHABLE:
            self._stop(error.reason)
        return error.fault is Fault.UNREACHABLE or symptom in {"silent", "faulty"}

    async def _ask(self, request: JudgeRequest) -> JudgeAnswer:
        """Reserve the highest cost of a call, make it, and book its actual cost."""
        settings = self.stores.settings
        tokens = estimated_message_tokens(request.messages)
        call = PlannedCall(tokens, settings.judge_max_output_tokens)
        most = worst_case_usd([call], judge_pricing(settings, self.run.judge_model, utc_now()))
        reservation = self.budget.admit(most)
        if isinstance(reservation, Deferred):
            raise _StoppedError(reservation.reason)
        try:
            await self._reserve(most)
            metered = MeteredCall(reservation, most)
            return await self._answer(request, metered)
        finally:
            reservation.close()

    async def _answer(self, request: JudgeRequest, metered: MeteredCall) -> JudgeAnswer:
        most = metered.worst_case_usd

        async def reserve_again() -> bool:
            try:
                await self._reserve(most)
            except _StoppedError:
                return False
            return True

        try:
            answer = await ask_metered(self.client, request.messages, metered, reserve_again)
        except (CircuitOpenError, BudgetReachedError) as error:
            raise _StoppedError(str(error)) from error
        finally:
            if most is not None and (unspent := metered.unspent_usd):
                await asyncio.to_thread(self.store.settle, self.run.run_id, unspent, utc_now())
        self.blame.note_reply(why_useless(answer.reply))
        return answer

    async def _reserve(self, most: float | None) -> None:
        if most is None:
            return
        day_usd = self.stores.settings.judge_max_cost_per_day_usd
        reservation = DayReservation(most, max_day_usd=day_usd)
        try:
            await asyncio.to_thread(self.store.reserve, self.run.run_id, reservation, utc_now())
        except DayBudgetReachedError as error:
            raise _StoppedError(error.refused.reason) from error


def _known_sum(values: Sequence[_Number | None]) -> _Number | None:
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None


def _family(model: str | None) -> str | None:
    return None if model is None else PriceTable().provider_of(model)


def _with_calls(judged: JudgedSession, answers: Sequence[JudgeAnswer]) -> JudgedSession:
    """Return a judged session with the sums of its calls; unknown if one of them is unknown."""
    used = [each.usage for each in answers]
    costs = [each.cost_usd for each in answers]
    read = [None if each is None else each.input_tokens + each.cached_tokens for each in used]
    written = [None if each is None else each.output_tokens for each in used]
    return replace(
        judged,
        input_tokens=_known_sum(read),
        output_tokens=_known_sum(written),
        cost_usd=_known_sum(costs),
        seconds=sum(each.latency_ms or 0.0 for each in answers) / 1000,
    )
