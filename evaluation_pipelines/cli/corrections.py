"""Commands with which people correct scores, and see how well the scores fit."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, parse_as_of
from evaluation_pipelines.cli.output import (
    counted,
    one_decimal,
    one_line,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.scorecards.audit_samples import calibration as measure
from evaluation_pipelines.scorecards.domain.calibration import (
    SMALLEST,
    Agreement,
    AgreementEstimate,
    Streak,
)
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    OverrideError,
    RecordedOverride,
    import_overrides,
    override,
    overrides_with_states,
)
from evaluation_pipelines.scorecards.session_lookup import SessionName, find_target
from evaluation_pipelines.sessions.domain.performance import printed
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores

_SCORES = ("override_100", "automatic_100")

ANNOTATOR = typer.Option(metavar="NAME", help="Who says so.")


def override_one(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session key or id.")],
    annotator: Annotated[str, ANNOTATOR],
    reason: Annotated[str, typer.Option(help="Why.")],
    score: Annotated[
        float | None, typer.Option(help="The right score, on the profile's scale.")
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="The automatic score is right.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="Another profile than the best match.")
    ] = None,
    organization: Annotated[
        str | None, typer.Option(help="Where several have that session.")
    ] = None,
) -> None:
    """Correct the score of a session, or confirm it; it counts at once and stays beside it."""
    if (score is None) != confirm:
        raise typer.BadParameter("give either --score or --confirm")
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        registry = sync_profiles(stores, now).registry
        target = find_target(stores, registry, SessionName(session, organization, profile))
        recorded = override(stores, target, HumanVerdict(score, annotator, reason), "person", now)
    print_line(told(recorded))


def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV, or - for standard input.")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Store the good rows although there are bad ones.")
    ] = False,
) -> None:
    """Store overrides from a CSV file: session, score, annotator, reason[, organization, profile].

    A bad row is told with its line, and nothing is stored then unless bad rows are skipped.
    """
    text = _text(file)
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        sync_profiles(stores, now)
        done = import_overrides(stores, text.splitlines(keepends=True), now, skip_bad=skip_bad)
    for number, why in done.bad:
        print_error(f"line {number}: {one_line(why)}")
    stored = counted(done.stored, "override")
    print_line(f"{stored} stored, {done.known} known already, {counted(len(done.bad), 'bad row')}")
    if done.bad:
        if not skip_bad:
            print_error("error: nothing was stored: mend the rows, or use --skip-bad")
        raise typer.Exit(1)


def list_overrides(
    stale: Annotated[
        bool, typer.Option("--stale", help="Only those whose session has grown since.")
    ] = False,
    as_of: Annotated[str | None, AS_OF] = None,
) -> None:
    """List what people said, the newest last, and whether it counts."""
    with read_stores_as_of(load_settings(), parse_as_of(as_of)) as stores:
        found = overrides_with_states(stores)
    found = found.filter(pl.col("state") == "stale") if stale else found
    if found.is_empty():
        print_line("There are no stale overrides." if stale else "Nobody has said anything yet.")
        return
    shown = found.with_columns(printed(pl.col(_SCORES)))
    rows = shown.select(
        "session_key",
        *(pl.col(each).map_elements(one_decimal, pl.String) for each in _SCORES),
        "state",
        "profile_id",
        "source",
        "annotator",
        pl.col("made_at").dt.strftime("%Y-%m-%d %H:%M"),
        "reason",
    ).rows()
    columns = (
        "session key",
        "human #",
        "automatic #",
        "state",
        "profile",
        "source",
        "annotator",
        "made (UTC)",
        "reason",
    )
    print_table("Overrides (scores as 0-100)", columns, rows, essential=4)


def calibration(as_of: Annotated[str | None, AS_OF] = None) -> None:
    """Show how far automatic scores and people agree, per profile version."""
    with read_stores_as_of(load_settings(), parse_as_of(as_of)) as stores:
        agreed, streaks = measure(stores)
    if not agreed:
        print_line("Nobody has corrected or confirmed a score yet: see scorecards audit.")
        return
    columns = ("profile", "sample", "n #", "bias", "mean error", "Spearman", "weighted kappa")
    rows = [_agreement(each) for each in agreed]
    print_table("Automatic minus human, 0-100, with 95 % intervals", columns, rows, essential=5)
    print_line(
        "Only the audit sample is drawn at random; what people chose to correct is no measure."
    )
    for each in streaks:
        if each.wants_recalibration:
            print_error(recalibrate(each))


def told(recorded: RecordedOverride) -> str:
    """What was stored, for the person who said it."""
    new = recorded.new
    automatic = "none" if new.automatic_score is None else f"{new.automatic_score:.1f}"
    said = "confirmed" if new.is_confirmation else f"now {new.override_score:g}"
    return (
        f"{one_line(new.session_key)}: {said} (automatic: {automatic}; {new.profile_id}, "
        f"{new.scale_min:g} to {new.scale_max:g}). {_what_counts(recorded)}; the tables of "
        f"{new.session_date} follow with their next build."
    )


def _what_counts(recorded: RecordedOverride) -> str:
    if recorded.decides:
        return "It counts at once"
    return (
        "It counts at once for this card, and not for the session, whose score is that of its "
        "best match"
    )


def recalibrate(streak: Streak) -> str:
    """The notice about corrections in one direction."""
    direction = "lower" if streak.too_high else "higher"
    return (
        f"recalibrate {streak.profile_id} version {streak.profile_version}: the last "
        f"{streak.length} corrections all made the score {direction}. See docs/scorecards.md."
    )


def _agreement(each: Agreement) -> tuple[object, ...]:
    name = f"{each.profile_id} v{each.profile_version}"
    if each.n < SMALLEST:
        return (name, each.sample, each.n, f"not yet: {each.n} of {SMALLEST}", None, None, None)
    figures = (
        _estimate(each.bias, "+.1f"),
        _estimate(each.mae, ".1f"),
        _estimate(each.spearman, "+.2f"),
        _estimate(each.kappa, "+.2f"),
    )
    return (name, each.sample, each.n, *figures)


def _estimate(estimate: AgreementEstimate, form: str) -> str | None:
    if estimate.value is None:
        return None
    if estimate.interval is None:
        return format(estimate.value, form)
    low, high = (format(each, form) for each in estimate.interval)
    return f"{estimate.value:{form}} ({low} to {high})"


def _text(file: str) -> str:
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OverrideError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
