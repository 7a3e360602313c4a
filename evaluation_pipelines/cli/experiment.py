"""Commands ``experiment``: assign sessions or people to arms at random, and look three times."""

import re
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evaluation_pipelines.cli.conventions import known_number, refuse_unused
from evaluation_pipelines.cli.output import (
    DATA,
    OUTPUT_FILE,
    OutputFormat,
    format_option,
    one_line,
    print_error,
    print_line,
    write_output,
)
from evaluation_pipelines.comparison.domain.experiment_plan import (
    DIFFERENCE,
    LOOKS,
    RUN_SD,
    SESSIONS,
    TAU,
    Plan,
    PlanError,
    read_plan,
)

if TYPE_CHECKING:
    from evaluation_pipelines.comparison.domain.experiment import Result
    from evaluation_pipelines.comparison.experiments import Shown

app = typer.Typer(help="Assign sessions or people to arms at random.", no_args_is_help=True)

NAME = typer.Argument(metavar="NAME", help="Name: sessions send the attribute experiment.NAME.")


class Unit(StrEnum):
    """Units to assign."""

    SESSION = "session"
    PERSON = "person"


@app.command("create")
def create_experiment(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: Annotated[str, NAME],
    arms: Annotated[str, typer.Option(metavar="A,B", help="Names of the two arms.")],
    unit: Annotated[Unit, typer.Option(help="Unit to assign.")],
    days: Annotated[int, typer.Option(min=LOOKS, max=366, help="Planned days.")],
    share: Annotated[
        float,
        typer.Option(min=0.05, max=0.95, callback=known_number, help="Share of the first arm."),
    ] = 0.5,
    metric: Annotated[
        str,
        typer.Option(help="Primary metric: effective, composite, judge, cost or failed_calls."),
    ] = "effective",
    profile: Annotated[str | None, typer.Option(help="Only scores by this judge profile.")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="DATE", help="First UTC day. Default: today.")
    ] = None,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
) -> None:
    """Freeze the plan of an experiment.

    --output writes it with the key of the assignment, for machines without the ledger.
    """
    # Loads Polars and the ledger, which an assignment by file does not need.
    from evaluation_pipelines.comparison.domain.gate import METRICS
    from evaluation_pipelines.comparison.experiments import create
    from evaluation_pipelines.settings import load_settings
    from evaluation_pipelines.storage.stores import open_stores

    if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
        raise typer.BadParameter(one_line(f"{name}: use only letters, digits, -, _ and ."))
    named = tuple(word.strip() for word in arms.split(","))
    if len(named) != 2 or not all(named) or named[0] == named[1]:
        raise typer.BadParameter("--arms: name two arms, such as old,new")
    if metric not in METRICS:
        raise typer.BadParameter(f"--metric {metric}: choose {', '.join(METRICS)}")
    now, settings = datetime.now(UTC), load_settings()
    day = now.date() if start is None else _first_day(start)
    if day < now.date():
        raise typer.BadParameter(f"--start {day}: the first day is today (UTC) or later")
    plan = Plan(
        name,
        (named[0], named[1]),
        share,
        "session" if unit is Unit.SESSION else "person",
        days,
        day,
        metric,
        profile,
        settings.judge_model,
        "",
    )

    def keep(frozen: Plan) -> None:
        if output is not None:
            write_output(frozen.text(), output)

    with open_stores(settings) as stores:
        create(stores, plan, now, keep)
    if f"experiment.{name}" not in settings.session_attributes:
        print_error(
            one_line(
                f"note: sessions keep their arm once EVAL_SESSION_ATTRIBUTES has experiment.{name}"
            )
        )
    looks = ", ".join(map(str, plan.look_days))
    print_line(one_line(f"{name}: {day}, {days} days, looks on {looks}. The plan is frozen."))


def _first_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f"--start {text} is not a date. Use 2026-11-21"
        raise typer.BadParameter(one_line(message)) from error


@app.command()
def assign(
    name: Annotated[str, NAME],
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="Session id or person id.")],
    plan: Annotated[
        Path | None, typer.Option(help="File of create --output: no ledger is needed.")
    ] = None,
) -> None:
    """Print the arm of a session or person: always the same."""
    print_line(
        one_line((_read_plan(name) if plan is None else _read_plan_file(name, plan)).arm(unit))
    )


def _read_plan(name: str) -> Plan:
    from evaluation_pipelines.comparison.experiments import plan_of
    from evaluation_pipelines.settings import load_settings
    from evaluation_pipelines.storage.stores import read_stores

    with read_stores(load_settings()) as stores:
        return plan_of(stores.ledger, name)


def _read_plan_file(name: str, path: Path) -> Plan:
    try:
        plan = read_plan(path.read_text("utf-8"))
    except ValueError as error:
        raise PlanError(f"{path}: {error}: write it with experiment create --output") from error
    if plan.name != name:
        raise PlanError(one_line(f"{path}: this is the plan of {plan.name}, not of {name}"))
    return plan


def _expected(least: float, meaning: str, usual: float) -> Any:
    """Return an option about what is expected of an experiment, in points up to 100."""
    text = f"{meaning}. Default: {usual:g}."
    return typer.Option(min=least, max=100, callback=known_number, help=text)


@app.command("show")
def show_experiment(
    name: Annotated[str, NAME],
    difference: Annotated[
        float | None, _expected(0.1, "Wanted difference in points", DIFFERENCE)
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(min=4, help=f"Expected sessions of each person. Default: {SESSIONS}."),
    ] = None,
    run_sd: Annotated[
        float | None, _expected(0.1, "Standard deviation of a person's sessions", RUN_SD)
    ] = None,
    tau: Annotated[
        float | None, _expected(0, "Deviation of people's true differences", TAU)
    ] = None,
    form: Annotated[OutputFormat, format_option(*DATA)] = OutputFormat.TABLE,
) -> None:
    """Show counts per arm, and the due looks.

    Before the first look, also the number of people needed. The options set its assumptions.
    """
    from evaluation_pipelines.cli.rows import write_rows
    from evaluation_pipelines.comparison.domain.experiment import people_needed
    from evaluation_pipelines.comparison.experiments import show
    from evaluation_pipelines.settings import load_settings
    from evaluation_pipelines.storage.stores import read_stores

    with read_stores(load_settings()) as stores:
        found = show(stores, name, datetime.now(UTC).date())
    expected = {
        "--difference": difference,
        "--sessions": sessions,
        "--run-sd": run_sd,
        "--tau": tau,
    }
    if form is not OutputFormat.TABLE or found.looks:
        given = {option: value is not None for option, value in expected.items()}
        refuse_unused("experiment show after the first look, or for json and csv", given)
    if form is not OutputFormat.TABLE:
        looks = [
            {"look": at, "date": day, "difference": look.value, "low": look.low, "high": look.high}
            | {"better": _better(found.plan, look), "reason": look.reason}
            for at, (day, look) in enumerate(found.looks, 1)
        ]
        units = dict(zip(found.plan.arms, found.units, strict=True))
        names = ("look", "date", "difference", "low", "high", "better", "reason")
        write_rows(looks, form, names, experiment=name, units=units)
        return
    _print(found)
    if not found.looks:
        difference, sessions = difference or DIFFERENCE, sessions or SESSIONS
        tau = TAU if tau is None else tau
        people = people_needed(difference, sessions, run_sd or RUN_SD, tau)
        print_line(
            f"{people:,} people with {sessions:,} sessions each show a difference of "
            f"{difference:g} in 4 of 5 such experiments."
        )


def _print(found: "Shown") -> None:
    plan, (first, second) = found.plan, found.units
    a, b = plan.arms
    print_line(one_line(f"{plan.name}: {a} {first}, {b} {second} ({plan.unit}s), {plan.metric}"))
    for arm, sessions in found.others.items():
        print_line(one_line(f"not counted: {sessions:,} sessions have the arm {arm}"))
    for at, (day, look) in enumerate(found.looks, 1):
        verdict = look.reason or f"{_better(plan, look) or 'not decided'}"
        if look.value is not None and look.low is not None and look.high is not None:
            interval = f"{look.value:+.1f} ({look.low:+.1f} to {look.high:+.1f})"
            verdict = f"{verdict}: {a} - {b} {interval}"
        print_line(one_line(f"look {at} of {LOOKS}, {day}: {verdict}"))
    if len(found.looks) < LOOKS:
        print_line(f"next look: {plan.look_days[len(found.looks)]}, until then only counts")


def _better(plan: Plan, found: "Result") -> str | None:
    return {"first": f"{plan.arms[0]} better", "second": f"{plan.arms[1]} better"}.get(
        found.verdict or ""
    )
