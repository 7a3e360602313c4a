"""Commands ``reputation``: agent scores and identity reputation in ClickHouse."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import polars as pl
import typer

from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, dates_in, parse_as_of, parse_dates
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.reputation_output import (
    print_agent,
    print_agents,
    print_files,
    print_identity,
    print_migrations,
    print_tables,
    signed,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record, write_rows
from evaluation_pipelines.reputation.domain.agent_score import (
    agent_record,
    unknown_agent,
)
from evaluation_pipelines.reputation.domain.external_signals import Retraction
from evaluation_pipelines.reputation.domain.identity import identity_id, unknown_identity
from evaluation_pipelines.reputation.external_signals import (
    load_external_signals,
    retract_external,
    skipped_files,
)
from evaluation_pipelines.reputation.reputation_as_of import reputation_as_of
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import load_submitted
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    change_reputation,
    export_agent_scores,
    export_reputation,
    open_reputation,
    read_reputation,
    scored_agents,
    weekly_scores,
    with_agents,
)
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores


class RetractedKind(StrEnum):
    """What can be retracted, named like the folders of the landing folder."""

    SIGNALS = "signals"
    EVALUATIONS = "evaluations"


app = typer.Typer(
    help="Reputation of identities over 90 days and scores of agents from 0 to 1000.",
    no_args_is_help=True,
)

_DEFAULT_ORGANIZATION = "default"
_DATES_PER_BATCH = 10
_ORGANIZATION = typer.Option(
    "--organization", metavar="NAME", help="Organization of the agent, if several have it."
)


@app.command()
def migrate(form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE) -> None:
    """Create or update the tables in ClickHouse and list the applied migrations."""
    with open_reputation(load_settings(), datetime.now(UTC)) as store:
        applied = store.applied()
    if form is OutputFormat.TABLE:
        print_migrations(applied)
    else:
        write_rows(applied, form)


@app.command()
def status(form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE) -> None:
    """Show the tables in ClickHouse and the applied migrations; csv has the tables."""
    with read_reputation(load_settings()) as store:
        tables, applied = store.status(), store.applied()
    if form is OutputFormat.TABLE:
        print_tables(tables)
        print_migrations(applied)
    else:
        write_rows(tables, form, migrations=applied.to_dicts())


@app.command()
def update(dates: Annotated[str | None, DATES_TO_LIST] = None) -> None:
    """Load sessions and external signals into ClickHouse and recompute all scores."""
    date_range = parse_dates(dates)
    with open_stores(load_settings()) as stores:
        days = dates_in(stores.lake.partitions(SESSION_EVALUATIONS), date_range)
        update_reputation(stores, days)


@app.command()
def show(
    agent: Annotated[str | None, typer.Argument(metavar="[AGENT]")] = None,
    identity: Annotated[UUID | None, typer.Option("--identity", metavar="UUID")] = None,
    organization: Annotated[str | None, _ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Show the score of an agent and the reputation of its identity, or of an identity."""
    if (agent is None) == (identity is None):
        raise typer.BadParameter("name either an agent or an --identity")
    then, row = parse_as_of(as_of), None
    now = then or datetime.now(UTC)
    with _read_store(load_settings(), then) as store:
        if agent is not None:
            row = _agent_row(store, agent, organization, now)
            identity = identity_id(row["organization_id"], agent)
        weeks = weekly_scores(store, str(identity), now)
    if form is not OutputFormat.TABLE:
        identity_record = weeks[-1] or unknown_identity(str(identity), now)
        write_record(identity_record if row is None else agent_record(row), form)
        return
    if row is not None:
        print_agent(row)
    print_identity(str(identity), weeks)


_ONE_ORGANIZATION = typer.Option("--organization", metavar="NAME", help="Only this organization.")


@app.command()
def leaderboard(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of agents.")] = 20,
    organization: Annotated[str | None, _ONE_ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List agents by score; agents that are still calibrating come last."""
    print_leaderboard(load_settings(), limit, parse_as_of(as_of), organization, form)


def print_leaderboard(
    settings: Settings,
    limit: int,
    then: datetime | None = None,
    organization: str | None = None,
    form: OutputFormat = OutputFormat.TABLE,
) -> None:
    """Print the best agents, as of the time ``then`` unless it is ``None``."""
    with _read_store(settings, then) as store:
        scores = scored_agents(store, then or datetime.now(UTC))
    ranked = _of_organization(scores, organization).sort(
        -pl.col("score"), -pl.col("eval_count"), "organization_id", "agent_id", nulls_last=True
    )
    if form is OutputFormat.TABLE:
        print_agents(ranked, limit)
    else:
        write_rows(ranked.head(limit), form)


@app.command()
def identities(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of identities.")] = 50,
    organization: Annotated[str | None, _ONE_ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List identities by their overall reputation, with the agents that they belong to."""
    settings, then = load_settings(), parse_as_of(as_of)
    with _read_store(settings, then) as store:
        scores = store.scores() if then is None else store.scores_as_of(then)
        named = _of_organization(with_agents(store, scores), organization)
    ranked = named.sort(-pl.col("overall_score"), "identity_id")
    if form is not OutputFormat.TABLE:
        write_rows(ranked.head(limit), form)
        return
    columns = ("identity", "agent", "organization", "overall #", "signals #", "confidence #")
    rows = [
        (
            *(row["identity_id"], row["agent_id"], row["organization_id"]),
            *(signed(row["overall_score"]), row["total_events"], f"{row['confidence']:.2f}"),
        )
        for row in ranked.head(limit).to_dicts()
    ]
    print_table("Identities, -1 to 1 by the signals of 90 days", columns, rows, essential=4)
    if (others := ranked.height - limit) > 0:
        print_line(f"{pluralize(others, 'other')}: reputation identities --limit {ranked.height}")


@app.command()
def retract(
    kind: Annotated[RetractedKind, typer.Argument(metavar="signals|evaluations")],
    row_id: Annotated[str, typer.Argument(metavar="ID", help="event_id or evaluation_id.")],
    agent: Annotated[str | None, typer.Option(help="Agent that it is about.")] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", metavar="NAME", help="Organization of --agent.")
    ] = None,
    identity: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="Identity that a signal is about.")
    ] = None,
) -> None:
    """Take a signal or an evaluation of another system back, for good.

    Its file may be read again: it does not count any more. Sessions cannot be retracted.
    """
    retraction = _retraction(kind, row_id, agent, organization, identity)
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores, change_reputation(stores, now) as store:
        retracted = retract_external(stores, store, kind.value, retraction, now)
        if retracted:
            export_reputation(stores, store)
            export_agent_scores(stores, store, now)
    what = pluralize(retracted, kind.value.removesuffix("s"))
    print_line(f"retracted {what}" if retracted else f"{kind.value} have no such id now: noted")


def _retraction(
    kind: RetractedKind,
    row_id: str,
    agent: str | None,
    organization: str | None,
    identity: UUID | None,
) -> Retraction:
    if organization is not None and agent is None:
        raise typer.BadParameter("--organization requires --agent: it names no identity alone")
    organization = organization or _DEFAULT_ORGANIZATION
    if kind is RetractedKind.EVALUATIONS:
        if agent is None:
            raise typer.BadParameter("name the agent of the evaluation: --agent")
        return Retraction(row_id, (organization, agent))
    try:
        event_id = str(UUID(row_id))
    except ValueError as error:
        raise typer.BadParameter(f"{one_line(row_id)} is no UUID") from error
    if identity is None and agent is not None:
        identity = identity_id(organization, agent)
    return Retraction(event_id, None if identity is None else (str(identity),))


def _of_organization(rows: pl.DataFrame, organization: str | None) -> pl.DataFrame:
    if organization is None:
        return rows
    return rows.filter(pl.col("organization_id") == organization)


def update_reputation(stores: Stores, dates: Sequence[date]) -> int:
    """Load the sessions of some dates and all external signals into ClickHouse.

    Returns:
        The number of invalid lines in the files that were loaded now.
    """
    now = datetime.now(UTC)
    scored = written = retired = 0
    with change_reputation(stores, now) as store:
        with progress_bar() as progress:
            progress.begin("loading sessions", len(dates))
            for start in range(0, len(dates), _DATES_PER_BATCH):
                batch = dates[start : start + _DATES_PER_BATCH]
                bridged = bridge_sessions(stores, store, batch, now)
                scored += bridged.scored
                written += bridged.written
                retired += bridged.retired
                progress.advance(len(batch))
        print_line(
            f"reputation: {pluralize(scored, 'session')} on {pluralize(len(dates), 'date')}: "
            f"{written} new or changed, {retired} withdrawn"
        )
        files = load_external_signals(stores, store, now).filter(pl.col("loaded_at") == now)
        print_files(files)
        if submitted := load_submitted(stores, store, now):
            print_line(f"  {pluralize(submitted, 'submitted evaluation')} loaded")
        for skipped in skipped_files(stores):
            print_error(f"warning: {one_line(skipped.path)} is not read: {skipped.reason}")
        identities = export_reputation(stores, store).height
        agents = export_agent_scores(stores, store, now).height
    scored_identities = pluralize(identities, "identity", "identities")
    print_line(f"  {scored_identities} and {pluralize(agents, 'agent')} scored")
    return int(files["rejected"].sum())


@contextmanager
def _read_store(settings: Settings, then: datetime | None) -> Iterator[ReputationStore]:
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
    """Return the row of an agent in AGENT_SCORES; for an unknown agent, only its record."""
    rows = scored_agents(store, now, [agent])
    if organization is not None:
        rows = rows.filter(pl.col("organization_id") == organization)
    if rows.height > 1:
        names = ", ".join(one_line(each) for each in rows["organization_id"])
        raise typer.BadParameter(f"{one_line(agent)} exists in {names}: add --organization")
    if rows.is_empty():
        return unknown_agent(organization or _DEFAULT_ORGANIZATION, agent, now)
    return rows.to_dicts()[0]
