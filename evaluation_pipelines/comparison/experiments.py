"""Experiments in the ledger, and their looks over the lake."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.comparison.compare_models import last_days
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.experiment import Result, counts, result
from evaluation_pipelines.comparison.domain.experiment_plan import Judged, Plan, read_plan
from evaluation_pipelines.comparison.domain.gate import METRICS
from evaluation_pipelines.comparison.domain.groups import GroupingError, grouping
from evaluation_pipelines.comparison.gate import measured_runs
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import EXPERIMENTS
from evaluation_pipelines.storage.stores import Stores

KEY_BYTES = 32


class ExperimentError(UserError):
    """There is no such experiment, or there is one already."""


def create(stores: Stores, plan: Plan, now: datetime, keep: Callable[[Plan], None]) -> None:
    """Freeze a plan with a new key and the present profiles and judges.

    Args:
        stores: The stores.
        plan: The plan, its key is replaced.
        now: The time.
        keep: Writes the plan elsewhere. If it raises, nothing is frozen.

    Raises:
        ExperimentError: An experiment has this name.
        ProfileError: There is no such profile.
        LedgerError: The ledger cannot be used.
    """
    if plan.profile is not None:
        ProfileStore(stores.ledger).registry().find(plan.profile)
    plan = replace(plan, key=secrets.token_hex(KEY_BYTES), profiles=judged_by(stores))
    with writing(stores.ledger.engine) as connection:
        if connection.scalar(sa.select(EXPERIMENTS.c.name).filter_by(name=plan.name)):
            raise ExperimentError(f"{plan.name}: this experiment exists, and its plan is frozen")
        row = {"name": plan.name, "plan": plan.text(), "created_at": now}
        connection.execute(sa.insert(EXPERIMENTS).values(row))
        keep(plan)


def plan_of(ledger: Ledger, name: str) -> Plan:
    """Return a plan.

    Raises:
        ExperimentError: There is no such experiment.
        LedgerError: The ledger cannot be used.
    """
    with reading(ledger.engine) as connection:
        names = connection.scalars(sa.select(EXPERIMENTS.c.name).order_by("name")).all()
        text = connection.scalar(sa.select(EXPERIMENTS.c.plan).filter_by(name=name))
    if text is None:
        raise ExperimentError(f"{name}: no such experiment, known: {', '.join(names) or 'none'}")
    return read_plan(text)


def judged_by(stores: Stores) -> dict[str, Judged]:
    """Return the version and the judge of each profile as they are now.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    model = stores.settings.judge_model or ""
    return {
        registered.profile.id: (
            registered.profile.version,
            judge_setup(registered.profile, "", model).model or None,
        )
        for registered in ProfileStore(stores.ledger).registry().newest()
    }


@dataclass(frozen=True, slots=True)
class Shown:
    """An experiment today: units of each arm, and the results of due looks.

    ``others`` counts the sessions of each other value of the attribute.
    """

    plan: Plan
    units: tuple[int, int]
    looks: Sequence[tuple[date, Result]]
    others: Mapping[str, int]


def show(stores: Stores, name: str, today: date) -> Shown:
    """Return an experiment: between looks there are only counts.

    Raises:
        ExperimentError: There is no such experiment.
        LakeError: A file cannot be read.
    """
    plan = plan_of(stores.ledger, name)
    every = _units(stores, plan, min(today + timedelta(days=1), plan.look_days[-1]))
    is_arm = pl.col("arm").is_in(plan.arms)
    units, others = every.filter(is_arm), every.filter(~is_arm)["arm"].value_counts(sort=True)
    looks = [
        (day, result(plan, units.filter(pl.col("started_on") < day)))
        for day in plan.look_days[: plan.due(today)]
    ]
    return Shown(plan, counts(plan, units), looks, dict(others.iter_rows()))


def _units(stores: Stores, plan: Plan, until: date) -> pl.DataFrame:
    """Return the assigned sessions that started before a day, with their metric."""
    start, metric = _midnight(plan.starts_on), METRICS[plan.metric]
    runs = _runs(stores, plan, start, _midnight(until), f"attribute:experiment.{plan.name}")
    before = _runs(stores, plan, last_days(start)[0], start, "environment")
    means = before.group_by("person").agg(baseline=metric.value().mean())
    return (
        runs.filter(pl.col("model").is_not_null())
        .join(means.filter(pl.col("person").is_not_null()), on="person", how="left")
        .select(
            "person",
            "baseline",
            "profile_id",
            "profile_version",
            unit="session_id" if plan.unit == "session" else "person",
            arm="model",
            value=metric.value(),
            judge="judge_total_model" if plan.metric == "judge" else "judge_model",
            started_on=pl.col("started_at").dt.date(),
        )
    )


def _runs(stores: Stores, plan: Plan, since: datetime, until: datetime, by: str) -> pl.DataFrame:
    lake, named = stores.lake.snapshot(), grouping(by)
    question = Question(since, max(until, since), profile=plan.profile, by=named)
    try:
        return measured_runs(lake, question)
    except GroupingError:  # no session was assigned yet
        return measured_runs(lake, Question(since, since, by=grouping("environment")))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
