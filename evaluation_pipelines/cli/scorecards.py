"""Commands about scorecards: query them, correct them, look at a random sample."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.cli.audit import audit
from evaluation_pipelines.cli.card_forms import print_cards, print_unscored, write_cards
from evaluation_pipelines.cli.corrections import (
    calibration,
    import_file,
    list_overrides,
    override_one,
)
from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_time
from evaluation_pipelines.cli.terminal import say
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.stages.as_of import read_stores_as_of
from evaluation_pipelines.stages.scorecard_queries import (
    CardQuery,
    query_cards,
    query_unscored,
    refuse_unknown_names,
)
from evaluation_pipelines.stages.stores import read_stores

app = typer.Typer(
    help="Scorecards: query, override, audit, import, overrides, calibration, events.",
    no_args_is_help=True,
)


class CardFormat(StrEnum):
    """How cards are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@app.command("query")
def query(  # noqa: PLR0913, PLR0917 - an option each
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="An agent id.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Started then or later, UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Started before, UTC.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="A classification label.")] = None,
    model: Annotated[str | None, typer.Option(help="A model.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="A profile id, or best: the best match of each session.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Cards of older content and versions, too.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most, the newest.")] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        CardFormat, typer.Option("--format", help="How to print them.")
    ] = CardFormat.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write to a file, not to the screen.")] = None,
) -> None:
    """Show scorecards; overrides count at once. Name a session, an agent or a time range.

    Of sessions without a card of their best match the table also shows the score that counts.
    """
    wanted = CardQuery(
        session=session,
        agent=agent,
        since=None if since is None else parse_time(since, "--from"),
        until=None if until is None else parse_time(until, "--to"),
        label=label,
        model=model,
        profile=profile,
        history=history,
        limit=limit,
    )
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        cards = query_cards(stores, wanted)
        unscored = query_unscored(stores, wanted)
        dates = stores.ledger.touched.all() if then is None else []
        behind = {each.session_date for each in dates if not each.is_built}
        if cards.is_empty() and unscored.is_empty():
            refuse_unknown_names(stores, wanted)
    if form is not CardFormat.TABLE or output is not None:
        write_cards(cards, "csv" if form is CardFormat.TABLE else form.value, output)
        return
    if cards.is_empty():
        say("There are no scorecards like that.")
    else:
        print_cards(cards)
    print_unscored(unscored, behind)


app.command("override")(override_one)
app.command("import")(import_file)
app.command("overrides")(list_overrides)
app.command("audit")(audit)
app.command("calibration")(calibration)


@app.command("events")
def events(
    after: Annotated[int, typer.Option(help="Only those after this position.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 1000,
) -> None:
    """Print events of effective scores as JSON lines, oldest first, for programs that follow them.

    Go on with --after and the position of the last line.
    """
    with read_stores(load_settings()) as stores:
        for each in stores.ledger.evaluation_events.after(after, limit):
            line = {
                "position": each.position,
                "event_id": each.event_id,
                "recorded_at": each.recorded_at.isoformat(),
                **json.loads(each.payload),
            }
            sys.stdout.write(f"{json.dumps(line)}\n")
