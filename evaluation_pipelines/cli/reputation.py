"""Commands about reputation: who can be relied on, over time."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from typing import Annotated, Any
from uuid import UUID

import polars as pl
import typer

from evaluation_pipelines.adapters.reputation_store import ReputationStore
from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_days, within
from evaluation_pipelines.cli.reputation_forms import (
    print_agent,
    print_agents,
    print_files,
    print_identity,
    print_migrations,
    print_tables,
)
from evaluation_pipelines.cli.terminal import counted, one_line, progress_bar, say
from evaluation_pipelines.domain.reputation.agent_score import agent_record, unknown_agent
from evaluation_pipelines.domain.reputation.identity import identity_id, unknown_identity
from evaluation_pipelines.domain.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.stages.external_signals import load_external_signals
from evaluation_pipelines.stages.reputation import (
    bridge_sessions,
    export_agent_scores,
    export_reputation,
    open_reputation,
    read_reputation,
    scored_agents,
    weekly_scores,
)
from evaluation_pipelines.stages.reputation_as_of import reputation_as_of
from evaluation_pipelines.stages.stores import Stores, open_stores, read_stores

app = typer.Typer(
    help="Who can be relied on: identities over 90 days, agents from 0 to 1000.",
    no_args_is_help=True,
)

_DEFAULT_ORGANIZATION = "default"
_DATES_AT_A_TIME = 10
_DATES = typer.Option(
    "--date",
    metavar="A[..B]",
    help="Only sessions of this UTC day, or of the days from A to B; else those of all days.",
)
_ORGANIZATION = typer.Option(
    "--organization", metavar="NAME", help="Organization of the agent, where several have one."
)


@app.command()
def migrate() -> None:
    """Create or update the tables of ClickHouse, and list what was applied."""
    with open_reputation(load_settings(), datetime.now(UTC)) as store:
        print_migrations(store)


@app.command()
def status() -> None:
    """Show what ClickHouse holds."""
    with read_reputation(load_settings()) as store:
        print_tables(store)
        print_migrations(store)


@app.command()
def update(dates: Annotated[str | None, _DATES] = None) -> None:
    """Bring sessions and outside signals to ClickHouse, and compute all scores anew."""
    days = None if dates is None else parse_days(dates)
    with open_stores(load_settings()) as stores:
        chosen = within(stores.lake.partitions(SESSION_EVALUATIONS), days)
        update_reputation(stores, chosen)


@app.command()
def show(
    agent: Annotated[str | None, typer.Argument(metavar="[AGENT]")] = None,
    identity: Annotated[UUID | None, typer.Option("--identity", metavar="UUID")] = None,
    organization: Annotated[str | None, _ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The record as JSON.")] = False,
) -> None:
    """Show the reputation of an agent, or of an identity by its id."""
    if (agent is None) == (identity is None):
        raise typer.BadParameter("name either an agent or an --identity")
    then, row = parse_as_of(as_of), None
    now = then or datetime.now(UTC)
    with _reading(load_settings(), then) as store:
        if agent is not None:
            row = _agent_row(store, agent, organization, now)
            identity = identity_id(row["organization_id"], agent)
        weeks = weekly_scores(store, str(identity), now)
    if as_json:
        about_identity = weeks[-1] or unknown_identity(str(identity), now)
        found = about_identity if row is None else agent_record(row)
        say(json.dumps(found, indent=2, default=_in_json))
        return
    if row is not None:
        print_agent(row)
    print_identity(str(identity), weeks)


@app.command()
def leaderboard(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    as_of: Annotated[str | None, AS_OF] = None,
) -> None:
    """List agents by their score, those that are still calibrating last."""
    print_leaderboard(load_settings(), limit, parse_as_of(as_of))


def print_leaderboard(settings: Settings, limit: int, then: datetime | None = None) -> None:
    """The best agents, and how many more there are; as of a past time if wanted."""
    with _reading(settings, then) as store:
        print_agents(scored_agents(store, then or datetime.now(UTC)), limit)


def update_reputation(stores: Stores, dates: Sequence[date]) -> int:
    """Bring the sessions of these dates and all outside signals to ClickHouse, and say so.

    Gives how many lines of files that were loaded just now could not be used.
    """
    now = datetime.now(UTC)
    scored = written = retired = 0
    with open_reputation(stores.settings, now) as store:
        with progress_bar() as progress:
            progress.begin("sessions to signals", len(dates))
            for start in range(0, len(dates), _DATES_AT_A_TIME):
                some = dates[start : start + _DATES_AT_A_TIME]
                bridged = bridge_sessions(stores, store, some, now)
                scored += bridged.scored
                written += bridged.written
                retired += bridged.retired
                progress.advance(len(some))
        say(
            f"reputation: {counted(scored, 'session')} on {counted(len(dates), 'date')}: "
            f"{written} new or changed, {retired} taken back"
        )
        files = load_external_signals(stores, store, now).filter(pl.col("loaded_at") == now)
        print_files(files)
        identities = export_reputation(stores, store).height
        agents = export_agent_scores(stores, store, now).height
    say(f"  {counted(identities, 'identity', 'identities')} and {counted(agents, 'agent')} scored")
    return int(files["rejected"].sum())


@contextmanager
def _reading(settings: Settings, then: datetime | None) -> Iterator[ReputationStore]:
    if then is None:
        with read_reputation(settings) as store:
            yield store
        return
    with read_stores(settings) as stores, ExitStack() as stack:
        with progress_bar() as progress:
            store = stack.enter_context(reputation_as_of(stores, then, progress))
        yield store


def _agent_row(
    store: ReputationStore, agent: str, organization: str | None, now: datetime
) -> dict[str, Any]:
    """The agent's row of AGENT_SCORES; of an unknown one the record alone."""
    rows = scored_agents(store, now, [agent])
    if organization is not None:
        rows = rows.filter(pl.col("organization_id") == organization)
    if rows.height > 1:
        names = ", ".join(one_line(each) for each in rows["organization_id"])
        raise typer.BadParameter(f"{one_line(agent)} is known in {names}: add --organization")
    if rows.is_empty():
        return unknown_agent(organization or _DEFAULT_ORGANIZATION, agent, now)
    return rows.to_dicts()[0]


def _in_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
