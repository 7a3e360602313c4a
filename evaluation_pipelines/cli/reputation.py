"""Commands ``reputation``: agent ratings and identity reputation in ClickHouse."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import polars as pl
import typer

from evaluation_pipelines.cli.conventions import ListGroup, of_parts, refuse_unused
from evaluation_pipelines.cli.filters import (
    AS_OF,
    DATES_TO_LIST,
    dates_in,
    parse_as_of,
    parse_dates,
)
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record, write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.formatting import DASH, minute
from evaluation_pipelines.reputation.domain.agent_rating import (
    CALIBRATED_AT,
    agent_record,
    progress,
    unknown_agent,
)
from evaluation_pipelines.reputation.domain.signals import (
    AGENT_NAME,
    Retraction,
    identity_id,
    unknown_identity,
)
from evaluation_pipelines.reputation.external_signals import (
    load_external_signals,
    retract_external,
    skipped_files,
)
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import (
    agent_organizations,
    agent_windows,
    load_submitted,
)
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    change_reputation,
    export_agent_ratings,
    export_reputation,
    open_reputation,
    read_reputation,
    reputation_as_of,
    weekly_scores,
    with_agents,
)
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    REPUTATION_SCORES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS, SessionKey, withhold
from evaluation_pipelines.sessions.find import named_windows
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.clickhouse import ClickHouseError
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores
from evaluation_pipelines.views.agents import agents, passed_interval, reputations, score_cell
from evaluation_pipelines.views.listing import AGENT_LISTING


class RetractedKind(StrEnum):
    """What can be retracted, named like the folders of the landing folder."""

    SIGNALS = "signals"
    EVALUATIONS = "evaluations"


app = typer.Typer(cls=ListGroup, help="Rank agents, 0 to 1000, and identities.")

_DEFAULT_ORGANIZATION = "default"
_DATES_PER_BATCH = 10
_LIMIT = 50


@app.command("list")
def list_reputation(  # noqa: PLR0913, PLR0917 - one parameter per option
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="Only this agent, with its identity's reputation."),
    ] = None,
    identity: Annotated[
        UUID | None, typer.Option(metavar="UUID", help="Only the reputation of this identity.")
    ] = None,
    identities: Annotated[
        bool, typer.Option("--identities", help="List identities by reputation, -1 to 1, instead.")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the ClickHouse tables and migrations instead.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help=f"Maximum number of rows. Default: {_LIMIT}."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", metavar="NAME", help="Only this organization.")
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List agents by rating, calibrating agents last, or show one."""
    if sum((agent is not None, identity is not None, identities, tables)) > 1:
        raise typer.BadParameter("give one of AGENT, --identity, --identities and --tables")
    settings, then = load_settings(), parse_as_of(as_of)
    is_one = agent is not None or identity is not None
    refuse_unused(
        "reputation list " + ("--tables" if tables else "AGENT" if agent else "--identity"),
        {
            "--limit": limit is not None and (tables or is_one),
            "--organization": organization is not None and (tables or identity is not None),
            "--as-of": as_of is not None and tables,
        },
    )
    if tables:
        _list_tables(settings, form)
    elif is_one:
        _show(settings, agent, identity, organization, then, form)
    elif identities:
        _list_identities(settings, limit or _LIMIT, then, organization, form)
    else:
        _list_agents(settings, limit or _LIMIT, then, organization, form)


def _list_tables(settings: Settings, form: OutputFormat) -> None:
    """List the tables in ClickHouse and the applied migrations; csv has the tables."""
    with read_reputation(settings) as store:
        tables, applied = store.status(), store.applied()
    if form is OutputFormat.TABLE:
        rows = [(row["name"], row["row_count"], row["newest"]) for row in tables.to_dicts()]
        cells = [(*counts, newest and minute(newest)) for *counts, newest in rows]
        print_table("Reputation", ("table", "rows #", "latest (UTC)"), cells, essential=3)
        print_migrations(applied)
    else:
        write_rows(tables, form, migrations=applied.to_dicts())


@app.command()
def update(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Only create or update the tables in ClickHouse.")
    ] = False,
) -> None:
    """Load sessions and external signals into ClickHouse and recompute all scores."""
    date_range = parse_dates(dates)
    if tables:
        if date_range is not None:
            raise typer.BadParameter("give either --date or --tables")
        with open_reputation(load_settings(), datetime.now(UTC)) as store:
            print_migrations(store.applied())
        return
    with open_stores(load_settings()) as stores:
        days = dates_in(stores.lake.partitions(SESSION_EVALUATIONS), date_range)
        update_reputation(stores, days)


def _show(
    settings: Settings,
    agent: str | None,
    identity: UUID | None,
    organization: str | None,
    then: datetime | None,
    form: OutputFormat,
) -> None:
    """Show the rating of an agent and the reputation of its identity, or of an identity."""
    row, here, now = None, AGENT_SESSIONS.no_rows, then or datetime.now(UTC)
    with _reputation(settings, then, form) as (stores, past, waiting):
        if agent is not None:
            windows = None if past else _windows(stores, agent, now)
            rated = agents(stores, now, windows, past, waiting=waiting).filter(agent_id=agent)
            rated = _organization_rows(rated, organization)
            here = waiting if rated.height else _rows(stores, waiting_of(stores))
            here = here.filter(AGENT_NAME.eq(agent), pl.col("started_at") <= now)
            here = _organization_rows(here, organization)
            row = _agent_row(rated, here, agent, organization, now)
            identity = identity_id(row["organization_id"], agent)
            if form is not OutputFormat.TABLE:
                write_record(agent_record(row), form)
                return
        (waits,) = reputations(pl.DataFrame({"identity_id": [f"{identity}"]}), waiting)[WAITS]
        weeks = [] if waits else _weeks(stores, past, str(identity), now)
    if form is not OutputFormat.TABLE:
        write_record(weeks[-1] or unknown_identity(str(identity), now), form)
        return
    if row is not None:
        print_agent(row, awaits_review=here.height > 0)
    print_identity(str(identity), weeks)


def _windows(stores: Stores, agent: str, now: datetime) -> pl.DataFrame:
    """Return the evaluations of all agents of this name."""
    owners = agent_organizations(stores, agent)
    return agent_windows(stores, [(owner, agent) for owner in owners], now)


def _weeks(
    stores: Stores, past: ReputationStore | None, identity: str, now: datetime
) -> Sequence[Mapping[str, Any] | None]:
    """Return an identity at the end of 13 weeks; without ClickHouse, as it was last exported."""
    try:
        with _clickhouse(stores, past) as store:
            return weekly_scores(store, identity, now)
    except ClickHouseError as error:
        if past is not None:
            raise
        print_error(f"warning: only the last export of identity {identity} is shown. {error}")
    exported = stores.lake.select(REPUTATION_SCORES, pl.col("identity_id") == identity)
    return [row if row["total_events"] else None for row in exported.to_dicts()] or [None]


def _list_agents(
    settings: Settings,
    limit: int,
    then: datetime | None,
    organization: str | None,
    form: OutputFormat,
) -> None:
    """List agents, the best first, as of the time ``then`` unless it is ``None``."""
    unread = list[str]()
    with _reputation(settings, then, form) as (stores, past, waiting):
        now = then or datetime.now(UTC)
        every = agents(stores, now, past=past, unread=unread, waiting=waiting)
    ranked = _organization_rows(every, organization)
    for message in unread:
        print_error(f"error: {one_line(message)}")
    if form is not OutputFormat.TABLE:
        write_rows(ranked.head(limit), form)
    elif ranked.is_empty() and not unread and _organization_rows(waiting, organization).height:
        print_line("No rated agents: sessions await review, or are not loaded yet.")
        print_line("To load them: evaluation-pipelines reputation update")
    elif ranked.height or not unread:
        print_agents(ranked, limit, organization, then)
    if unread:
        raise typer.Exit(of_parts(ranked.height, len(unread)))


def _list_identities(
    settings: Settings,
    limit: int,
    then: datetime | None,
    organization: str | None,
    form: OutputFormat,
) -> None:
    """List identities by their overall reputation, with the agents that they belong to."""
    with (
        _reputation(settings, then, form) as (stores, past, waiting),
        _clickhouse(stores, past) as store,
    ):
        scores = store.scores() if then is None else store.scores_as_of(then)
        named = _organization_rows(with_agents(store, scores), organization)
    ranked = reputations(named, waiting).sort(
        -pl.col("overall_score"), "identity_id", nulls_last=True
    )
    if form is not OutputFormat.TABLE:
        write_rows(ranked.drop(WAITS).head(limit), form)
        return
    columns = ("identity", "agent", "organization", "overall #", "signals #", "confidence #")
    rows = [_identity_line(row) for row in ranked.head(limit).to_dicts()]
    print_table("Identities, -1 to 1 by the signals of 90 days", columns, rows, essential=4)
    if (others := ranked.height - limit) > 0:
        command = f"reputation list --identities --limit {ranked.height}"
        print_line(f"{pluralize(others, 'other')}: {command}")


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
    """Retract a signal or an evaluation from another system permanently.

    Its file may be read again: it no longer counts. Sessions cannot be retracted.
    """
    retraction = _retraction(kind, row_id, agent, organization, identity)
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores, change_reputation(stores, now) as store:
        retracted = retract_external(stores, store, kind.value, retraction, now)
        if retracted:
            export_reputation(stores, store)
            export_agent_ratings(stores, store, now)
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
    is_signal = kind is RetractedKind.SIGNALS
    refuse_unused("evaluations", {"--identity": identity is not None and not is_signal})
    if identity is not None and agent is not None:
        raise typer.BadParameter("give either --agent or --identity")
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


def _organization_rows(rows: pl.DataFrame, organization: str | None) -> pl.DataFrame:
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
        agents = export_agent_ratings(stores, store, now).height
    scored_identities = pluralize(identities, "identity", "identities")
    print_line(f"  {scored_identities} and {pluralize(agents, 'agent')} rated")
    return int(files["rejected"].sum())


@contextmanager
def _reputation(
    settings: Settings, then: datetime | None, form: OutputFormat
) -> Iterator[tuple[Stores, ReputationStore | None, pl.DataFrame]]:
    """Open the stores, and the reputation of the time ``then`` unless it is ``None``.

    Third are the rows of the sessions that are withheld from a table: json and csv have all, as
    elsewhere. The reputation of a past time is computed without them: nothing of it is withheld.
    """
    with ExitStack() as stack:
        stores, past = stack.enter_context(read_stores(settings)), None
        keys = waiting_of(stores) if form is OutputFormat.TABLE else frozenset[SessionKey]()
        if then is not None:
            with progress_bar() as progress:
                past = stack.enter_context(reputation_as_of(stores, then, progress, keys))
        yield stores, past, AGENT_SESSIONS.no_rows if past else _rows(stores, keys)


def _rows(stores: Stores, keys: Collection[SessionKey]) -> pl.DataFrame:
    found = named_windows(stores, [session_key for _, session_key in keys])
    return withhold(found, keys).filter(WAITS)


def _clickhouse(
    stores: Stores, past: ReputationStore | None
) -> AbstractContextManager[ReputationStore]:
    return read_reputation(stores.settings) if past is None else nullcontext(past)


def _agent_row(
    rated: pl.DataFrame, waiting: pl.DataFrame, agent: str, organization: str | None, now: datetime
) -> dict[str, Any]:
    """Return the row of an agent, without evaluations only the record of an unknown agent."""
    owners = sorted({*(waiting if rated.is_empty() else rated)["organization_id"]})
    if len(owners) > 1:
        names = ", ".join(map(one_line, owners))
        raise typer.BadParameter(f"{one_line(agent)} exists in {names}: add --organization")
    if rated.is_empty():
        owner = owners[0] if owners else organization or _DEFAULT_ORGANIZATION
        return unknown_agent(owner, agent, now)
    return rated.to_dicts()[0]


_MAX_REJECTS = 3
_MAX_MODELS = 5
_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """Return one bar per value between ``low`` and ``high``; a dot for an unknown value."""
    return "".join("·" if value is None else _bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    index = (min(max(value, low), high) - low) / (high - low) * (len(_BARS) - 1)
    return _BARS[round(index)]


def print_migrations(applied: pl.DataFrame) -> None:
    """Print the applied migrations."""
    for row in applied.to_dicts():
        print_line(f"{minute(row['applied_at'])}  {row['name']}")


def print_files(files: pl.DataFrame) -> None:
    """Print the number of lines loaded from each file, and the errors of others.

    Args:
        files: EXTERNAL_SIGNALS.
    """
    for file in files.to_dicts():
        path, lines = one_line(file["path"]), pluralize(file["lines"], "line")
        withheld = file["withheld"] or 0
        others = {"retractions": file["retracted"], "already retracted": withheld}
        said = "".join(f", {number:,} {what}" for what, number in others.items() if number)
        print_line(f"  {path}: {file['accepted'] - withheld:,} of {lines} loaded{said}")
        for reject in file["rejects"][:_MAX_REJECTS]:
            print_error(f"warning: {path}, line {reject['line']}: {one_line(reject['reason'])}")
        if (more := file["rejected"] - _MAX_REJECTS) > 0:
            print_error(f"warning: {path}: {more} more invalid lines: see quarantine list")
        if file["unfinished"]:
            print_error(f"warning: {path}: the last line is incomplete and is read when it ends")


def print_agents(
    rows: pl.DataFrame, limit: int, organization: str | None = None, then: datetime | None = None
) -> None:
    """Print AGENTS in their order, of an organization and as of a past time if given."""
    if rows.is_empty():
        none = "No agent" if organization is None else f"No agent of {one_line(organization)}"
        print_line(
            f"{none} was evaluated yet. Run: evaluation-pipelines reputation update"
            if then is None
            else f"{none} had evaluations by then. Sessions awaiting review do not count."
        )
        return
    columns = (
        *("agent", "organization", "rating #", "30-day change #", "passed #", "90% interval"),
        *("reputation #", "stage"),
    )
    lines = [_agent_line(row) for row in rows.head(limit).to_dicts()]
    print_table("Agents, 0 to 1000 by their last 500 evaluations", columns, lines, essential=3)
    print_line()
    if any(map(progress, rows.head(limit).to_dicts())):
        print_line(f"n/{CALIBRATED_AT}: n of the {CALIBRATED_AT} evaluations that a rating needs")
    if (others := rows.height - limit) > 0:
        command = f"evaluation-pipelines reputation list --limit {rows.height}"
        print_line(f"{pluralize(others, 'other')}: {command}")
    print_line("One agent: evaluation-pipelines reputation list AGENT")


def print_agent(row: Mapping[str, Any], *, awaits_review: bool) -> None:
    """Print the row of an agent in AGENT_SCORES, or the record of an unknown agent.

    Args:
        row: The row or record.
        awaits_review: Whether sessions of the agent await a blind review.
    """
    print_line(f"{one_line(row['agent_id'])} of {one_line(row['organization_id'])}")
    rating = progress(row) or str(row["score"])
    print_line(f"  {'rating':16} {rating}{'' if '/' in rating else ' of 1000'}, {row['lifecycle']}")
    if not row["eval_count"] and awaits_review:
        print_line(f"  {'evaluations':16} none loaded (sessions awaiting review do not count)")
        return
    if not row["eval_count"]:
        print_line(
            f"  {'evaluations':16} none with this name. Known agents: "
            "evaluation-pipelines reputation list"
        )
        return
    before = AGENT_LISTING.cell(row, "score_30d_ago")
    print_line(f"  {'before':16} {'unknown' if before == DASH else before} (30 days ago)")
    passed = f"{row['pass_rate']:.0%} of {pluralize(row['eval_count'], 'evaluation')}"
    print_line(f"  {'passed':16} {passed} (90% interval {passed_interval(row)})")
    streak = pluralize(row["streak"], "pass", "passes")
    print_line(f"  {'streak':16} {streak} in a row, up to the latest evaluation")
    if row["avg_latency_ms"] is not None:
        print_line(f"  {'latency':16} {row['avg_latency_ms']:.0f} ms on average")
    for by_model in row["by_model"][:_MAX_MODELS]:
        model = "unknown model" if by_model["model"] is None else one_line(by_model["model"])
        print_line(
            f"  {'by model':16} {model}: {by_model['pass_rate']:.0%} of {by_model['evaluations']}"
        )
    if (more := len(row["by_model"]) - _MAX_MODELS) > 0:
        print_line(f"  {'by model':16} {more} more, see agent_scores")


def print_identity(identity: str, weeks: Sequence[Mapping[str, Any] | None]) -> None:
    """Print the newest reputation of an identity and its weekly overall scores.

    There are no ``weeks`` if they are withheld.
    """
    print_line(f"identity {identity}")
    if not weeks:
        print_line(f"  {'overall':16} {REVIEW_DUE}: hidden while one of its sessions is")
        return
    latest = weeks[-1]
    if latest is None:
        print_line("  no signal in the last 90 days")
        return
    line = sparkline([week["overall_score"] if week else None for week in weeks], -1, 1)
    over = f"{pluralize(len(weeks), 'week')}, -1 to 1"
    print_line(f"  {'overall':16} {latest['overall_score']:+.3f}  {line}  ({over})")
    for name in ("task_quality", "economic", "identity_hygiene"):
        is_known = name in latest["categories_observed"]
        print_line(f"  {name:16} {signed(latest[f'{name}_score']) if is_known else 'no signal'}")
    if (observed := latest["overall_observed"]) is not None:
        print_line(f"  {'known categories':16} {signed(observed)}")
    trend = (signed(latest[name]) for name in ("score_7d_ago", "score_30d_ago"))
    print_line(f"  {'before':16} {' and '.join(trend)} (7 and 30 days ago)")
    positive, negative = latest["positive_events"], latest["negative_events"]
    signals = f"{latest['total_events']} in 90 days, {positive} positive, {negative} negative"
    print_line(f"  {'signals':16} {signals}, confidence {latest['confidence']:.2f}")


def _agent_line(row: Mapping[str, Any]) -> tuple[str, ...]:
    cell = partial(AGENT_LISTING.cell, row)
    return (
        *(cell("agent_id"), cell("organization_id"), score_cell(row), cell("change")),
        *(cell("pass_rate"), passed_interval(row), cell("overall_score"), cell("lifecycle")),
    )


def _identity_line(row: Mapping[str, Any]) -> tuple[object, ...]:
    overall, confidence = row["overall_score"], row["confidence"]
    return (
        *(row["identity_id"], row["agent_id"], row["organization_id"]),
        REVIEW_DUE if row[WAITS] else signed(overall),
        *(row["total_events"], None if confidence is None else f"{confidence:.2f}"),
    )


def signed(value: float | None) -> str:
    """Return a score from -1 to 1 with its sign."""
    return "unknown" if value is None else f"{value + 0.0:+.3f}"
