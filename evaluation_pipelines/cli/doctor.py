"""Command ``doctor``: whether everything is well, and what to do if not."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli.exits import FAILED, PARTLY
from evaluation_pipelines.cli.output import OutputFormat, one_line, print_line, print_table
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.doctor.domain.diagnosis import Check, State, diagnose, worst
from evaluation_pipelines.doctor.examine import examine, examine_machine
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.stores import read_stores

_NAMES = ("area", "state", "seen", "advice")
_EXIT = {State.OK: 0, State.WARNING: PARTLY, State.FAILED: FAILED}


def doctor(
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask neither service, Dagster nor the judge.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Check whether telemetry arrives and everything runs, and say what to do if not.

    Exits with 1 if something failed, with 4 if there are only warnings.
    """
    now, settings, asks = datetime.now(UTC), load_settings(), not offline
    try:
        with read_stores(settings) as stores:
            facts = examine(stores, now, asks=asks, counts_rows=asks)
    except NoLedgerError:  # nothing has arrived yet
        facts = examine_machine(settings, now, asks=asks)
    checks = diagnose(facts)
    state = worst(checks)
    if form is OutputFormat.TABLE:
        _print(checks, state)
    else:
        programs = [asdict(each) for each in facts.arrivals]
        write_rows(map(record_of, checks), form, _NAMES, state=state.value, programs=programs)
    raise typer.Exit(_EXIT[state])


def _print(checks: list[Check], state: State) -> None:
    """Print what is well as a table, then the rest, each once with what to do."""
    well = [(each.area, each.seen) for each in checks if each.state is State.OK]
    print_table("What is well", ("area", "seen"), well, 2)
    rest = [each for each in checks if each.state is not State.OK]
    for each in sorted(rest, key=lambda each: each.state is not State.FAILED):
        print_line(one_line(f"{each.state}: {each.seen}: {each.advice}"))
    print_line(f"All in all: {state}")
