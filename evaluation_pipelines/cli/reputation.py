"""A row of scores as a row of letters."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from typing import Annotated, Any
from uuid import UUID

import polars as pl
import typer

from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_days, within
from evaluation_pipelines.cli.output import (
    counted,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.reputation.domain.agent_score import (
    CALIBRATED_AT,
    agent_record,
    unknown_agent,
)
from evaluation_pipelines.reputation.domain.identity import identity_id, unknown_identity
from evaluation_pipelines.reputation.external_signals import load_external_signals
from evaluation_pipelines.reputation.reputation_as_of import reputation_as_of
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    export_agent_scores,
    export_reputation,
    open_reputation,
    read_reputation,
    scored_agents,
    weekly_scores,
)
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """One bar per value between ``low`` and ``high``; a dot where nothing is known."""
    return "".join("·" if value is None else _bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    place = (min(max(value, low), high) - low) / (high - low) * (len(_BARS) - 1)
    return _BARS[round(place)]


_REJECTS_SHOWN = 3
_MODELS_SHOWN = 5


def print_tables(store: ReputationStore) -> None:
    """What each table holds."""
    rows = [
        (row["name"], row["row_count"], None if row["newest"] is None else _minute(row["newest"]))
        for row in store.status().to_dicts()
    ]
    print_table("Reputation", ("table", "rows #", "newest (UTC)"), rows, essential=3)


def print_migrations(store: ReputationStore) -> None:
    """What was applied, and when."""
    for row in store.applied().to_dicts():
        print_line(f"{_minute(row['applied_at'])}  {row['name']}")


def print_files(files: pl.DataFrame) -> None:
    """EXTERNAL_SIGNALS: how many lines of each file were loaded, and what is wrong with others."""
    for file in files.to_dicts():
        path, lines = one_line(file["path"]), counted(file["lines"], "line")
        print_line(f"  {path}: {file['accepted']} of {lines} loaded")
        for each in file["rejects"][:_REJECTS_SHOWN]:
            print_error(f"warning: {path}, line {each['line']}: {one_line(each['reason'])}")
        if (more := file["rejected"] - _REJECTS_SHOWN) > 0:
            print_error(f"warning: {path}: {more} more could not be used, see external_signals")
        if file["unfinished"]:
            print_error(f"warning: {path}: the last line has no end yet, it is read when it has")


def print_agents(scores: pl.DataFrame, limit: int) -> None:
    """AGENT_SCORES by score, agents that are still calibrating last."""
    ranked = scores.sort(
        -pl.col("score"), -pl.col("eval_count"), "organization_id", "agent_id", nulls_last=True
    )
    rows = [_line(row) for row in ranked.head(limit).to_dicts()]
    columns = (
        "agent",
        "organization",
        "score #",
        "30 days ago #",
        "passed #",
        "90 % interval",
        "streak #",
        "state",
    )
    print_table("Agents, 0 to 1000 by their last 500 evaluations", columns, rows, essential=3)
    if (others := scores.height - limit) > 0:
        print_line(f"{counted(others, 'other')}: reputation leaderboard --limit {scores.height}")


def print_agent(row: Mapping[str, Any]) -> None:
    """One agent: its row of AGENT_SCORES, or the record of an unknown one."""
    print_line(f"{one_line(row['agent_id'])} of {one_line(row['organization_id'])}")
    score = _shown_score(row)
    print_line(f"  {'score':16} {score}{'' if '/' in score else ' of 1000'}, {row['lifecycle']}")
    if not row["eval_count"]:
        print_line(
            f"  {'evaluations':16} none yet of this name; the leaderboard has those with some"
        )
        return
    before = row["score_30d_ago"]
    print_line(f"  {'before':16} {'unknown' if before is None else before} (30 days ago)")
    passed = f"{row['pass_rate']:.0%} of {counted(row['eval_count'], 'evaluation')}"
    print_line(f"  {'passed':16} {passed} (90 % interval {_interval(row)})")
    streak = counted(row["streak"], "pass", "passes")
    print_line(f"  {'streak':16} {streak} in a row up to the newest")
    if row["avg_latency_ms"] is not None:
        print_line(f"  {'latency':16} {row['avg_latency_ms']:.0f} ms on average")
    for each in row["by_model"][:_MODELS_SHOWN]:
        model = "no model named" if each["model"] is None else one_line(each["model"])
        print_line(f"  {'by model':16} {model}: {each['pass_rate']:.0%} of {each['evaluations']}")
    if (more := len(row["by_model"]) - _MODELS_SHOWN) > 0:
        print_line(f"  {'by model':16} {more} more, see agent_scores")


def print_identity(who: str, weeks: Sequence[Mapping[str, Any] | None]) -> None:
    """The newest reputation of an identity, and how its overall score went."""
    print_line(f"identity {who}")
    latest = weeks[-1]
    if latest is None:
        print_line("  no signal in the last 90 days")
        return
    line = sparkline([week["overall_score"] if week else None for week in weeks], -1, 1)
    print_line(f"  {'overall':16} {latest['overall_score']:+.3f}  {line}  (13 weeks, -1 to 1)")
    for name in ("task_quality", "economic", "identity_hygiene"):
        known = name in latest["categories_observed"]
        print_line(f"  {name:16} {_signed(latest[f'{name}_score']) if known else 'no signal'}")
    if (observed := latest["overall_observed"]) is not None:
        print_line(f"  {'of what is known':16} {_signed(observed)}")
    trend = (_signed(latest[name]) for name in ("score_7d_ago", "score_30d_ago"))
    print_line(f"  {'before':16} {' and '.join(trend)} (7 and 30 days ago)")
    for_it, against_it = latest["positive_events"], latest["negative_events"]
    signals = f"{latest['total_events']} in 90 days, {for_it} for it, {against_it} against it"
    print_line(f"  {'signals':16} {signals}; confidence {latest['confidence']:.2f}")


def _line(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["agent_id"],
        row["organization_id"],
        _shown_score(row),
        row["score_30d_ago"],
        f"{row['pass_rate']:.0%}",
        _interval(row),
        row["streak"],
        row["lifecycle"],
    )


def _shown_score(row: Mapping[str, Any]) -> str:
    """The score, or how far an agent is on the way to one."""
    if row["lifecycle"] == "calibrating":
        return f"{row['eval_count']}/{CALIBRATED_AT}"
    return str(row["score"])


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['pass_rate_low']:.0%} to {row['pass_rate_high']:.0%}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value + 0.0:+.3f}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


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
        print_line(json.dumps(found, indent=2, default=_in_json))
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
        print_line(
            f"reputation: {counted(scored, 'session')} on {counted(len(dates), 'date')}: "
            f"{written} new or changed, {retired} taken back"
        )
        files = load_external_signals(stores, store, now).filter(pl.col("loaded_at") == now)
        print_files(files)
        identities = export_reputation(stores, store).height
        agents = export_agent_scores(stores, store, now).height
    print_line(
        f"  {counted(identities, 'identity', 'identities')} and {counted(agents, 'agent')} scored"
    )
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
