"""Commands ``scorecards override`` and ``calibration``, and the list of overrides."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.conventions import FAILED, OPTIONAL_SESSION, ORGANIZATION, of_parts
from evaluation_pipelines.cli.filters import AS_OF, named_session, parse_as_of, with_session_filter
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_decimal,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.comparison.domain.prediction import HEADINGS, lines, notes
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.profiles.sync import sync_profiles
from evaluation_pipelines.schemas import OUTCOME_PREDICTIONS
from evaluation_pipelines.scorecards.blind_reviews import calibration as compute_calibration
from evaluation_pipelines.scorecards.blind_reviews import profile_leans
from evaluation_pipelines.scorecards.domain.calibration import (
    AGREEMENT_COLUMNS,
    Agreement,
    Lean,
)
from evaluation_pipelines.scorecards.domain.overrides import outdated
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS, withhold
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    OverrideError,
    RecordedOverride,
    import_overrides,
    override,
    overrides_with_states,
    plain_number,
)
from evaluation_pipelines.scorecards.scorecard_queries import find_target
from evaluation_pipelines.sessions.domain.performance import printed
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores

_SCORES = ("override_100", "automatic_100")

ANNOTATOR = typer.Option(metavar="NAME", help="Name of the reviewer.")


def _score(text: str) -> float:
    try:
        return plain_number(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def override_sessions(  # noqa: PLR0913, PLR0917 - one parameter per option
    session: Annotated[str | None, OPTIONAL_SESSION] = None,
    annotator: Annotated[str | None, ANNOTATOR] = None,
    reason: Annotated[str | None, typer.Option(help="Reason of the override.")] = None,
    score: Annotated[
        float | None,
        typer.Option(
            parser=_score, metavar="FLOAT", help="The correct score, on the profile's scale."
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Confirm the automatic score.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="Profile to correct. Default: the best match.")
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(metavar="ID", help="The criterion that was wrong.")
    ] = None,
    organization: Annotated[str | None, ORGANIZATION] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Instead: overrides of many sessions from this CSV file (- for standard input).",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="With --import: store the good rows in any case.")
    ] = False,
) -> None:
    """Override or confirm the score of a session, or import overrides.

    An override applies immediately, and the automatic score is kept. Columns of the file: session,
    score, annotator, reason, and optionally organization, profile, criterion. Bad rows are reported
    with their lines. Nothing is stored then, unless --skip-bad is given, which exits with 4.
    """
    if file is not None:
        given = (session, annotator, reason, score, profile, criterion, organization)
        if confirm or any(option is not None for option in given):
            raise typer.BadParameter("--import goes only with --skip-bad")
        _import_file(file, skip_bad=skip_bad)
        return
    if session is None or annotator is None or reason is None:
        raise typer.BadParameter("give SESSION, --annotator and --reason, or --import FILE")
    if (score is None) != confirm:
        raise typer.BadParameter("give either --score or --confirm")
    if skip_bad:
        raise typer.BadParameter("--skip-bad requires --import")
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        sync_profiles(stores, now)
        name = named_session(stores.lake, session, organization)
        target = find_target(stores, replace(name, profile=profile))
        verdict = HumanVerdict(score, annotator, reason, criterion)
        recorded = override(stores, target, verdict, "person", now)
    print_line(override_message(recorded))


def _import_file(file: str, *, skip_bad: bool) -> None:
    """Store overrides from a CSV file, print how many, and exit with the code of it."""
    text = _read_text(file)
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        sync_profiles(stores, now)
        result = import_overrides(stores, text.splitlines(keepends=True), now, skip_bad=skip_bad)
    for number, problem in result.bad:
        print_error(f"line {number}: {one_line(problem)}")
    stored, bad = pluralize(result.stored, "override"), pluralize(len(result.bad), "bad row")
    print_line(f"{stored} stored, {result.known} already known, {bad}")
    if result.bad:
        if not skip_bad:
            print_error("error: nothing was stored: fix the rows, or use --skip-bad")
            raise typer.Exit(FAILED)
        raise typer.Exit(of_parts(result.stored + result.known, len(result.bad)))


def list_overrides(
    stores: Stores, which: SessionFilter, limit: int | None, form: OutputFormat, *, stale: bool
) -> None:
    """List overrides and whether they apply, newest last; with ``stale``, only outdated ones."""
    found = overrides_with_states(stores, which)
    found = outdated(found) if stale else found
    shown = found if limit is None else found.tail(limit)
    if form is not OutputFormat.TABLE:
        write_rows(shown, form)
        return
    if found.is_empty():
        which_ones = "stale overrides" if stale else "overrides"
        yet = " yet" if which.is_empty and not stale else ""
        print_line(f"There are no {which_ones}{yet}{_selection_text(which)}.")
        return
    rounded = withhold(shown, waiting_of(stores)).with_columns(printed(pl.col(_SCORES)))
    text = pl.col(_SCORES).map_elements(one_decimal, pl.String)
    rows = rounded.select(
        "session_key",
        pl.when(WAITS).then(pl.lit(REVIEW_DUE)).otherwise(text).name.keep(),
        "state",
        "profile_id",
        "source",
        "annotator",
        pl.col("made_at").dt.strftime("%Y-%m-%d %H:%M"),
        "criterion_id",
        "organization_id",
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
        "criterion",
        "organization",
        "reason",
    )
    print_table("Overrides (scores as 0-100)", columns, rows, essential=4)


def _selection_text(which: SessionFilter) -> str:
    return "" if which.is_empty else " of these sessions"


@with_session_filter
def calibration(
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Show how automatic scores agree with reviewers, per profile version."""
    with read_stores_as_of(load_settings(), parse_as_of(as_of)) as stores:
        overrides = overrides_with_states(stores, which)
        if form is OutputFormat.TABLE:
            overrides = withhold(overrides, waiting_of(stores)).filter(~pl.col(WAITS))
        agreements = compute_calibration(stores, overrides)
        leans = profile_leans(stores, overrides)
        # Verdicts stay until the next look: there are none as of a past time.
        kept = OUTCOME_PREDICTIONS.no_rows
        predictions = kept if as_of else stores.lake.read_whole(OUTCOME_PREDICTIONS)
    if which.organization is not None:
        predictions = predictions.filter(organization_id=which.organization)
    if form is not OutputFormat.TABLE:
        records = [agreement.record() for agreement in agreements]
        more = {"leans": [_lean(lean) for lean in leans], "predictions": predictions.to_dicts()}
        write_rows(records, form, list(AGREEMENT_COLUMNS), **more)
        return
    if agreements:
        _print_agreements(agreements, leans)
    else:
        print_line(
            f"No score{_selection_text(which)} is overridden or confirmed yet: "
            "see the page /reviews."
        )
    for (organization,), rows in predictions.group_by("organization_id", maintain_order=True):
        title = f"\nScores and outcomes: {one_line(str(organization))}"
        print_table(title, HEADINGS, lines(rows), essential=5)
        for note in notes(rows):
            print_line(one_line(note))


def _print_agreements(agreements: Sequence[Agreement], leans: Sequence[Lean]) -> None:
    columns = ("profile", "sample", "n #", "off by > 10", "bias", "mean error", "Spearman", "kappa")
    rows = [_agreement_line(agreement) for agreement in agreements]
    print_table(
        "Automatic minus human score (0-100), with 95% intervals", columns, rows, essential=6
    )
    print_line(
        "Only the audit sample is random: scores that people chose to correct are no measure."
    )
    _print_leans(leans)


def _lean(found: Lean) -> dict[str, object]:
    return {**record_of(found, "required"), "is_beyond_chance": found.is_beyond_chance}


def override_message(recorded: RecordedOverride) -> str:
    """Return what was stored and what it affects."""
    new = recorded.new
    automatic = "none" if new.automatic_score is None else f"{new.automatic_score:.1f}"
    score = "confirmed" if new.is_confirmation else f"now {new.override_score:g}"
    effect = "It counts immediately"
    if not recorded.target.is_best_match:
        effect += " for this card, but not for the session, whose score is that of its best match"
    elif recorded.target.until_scored_by is not None:
        effect += f", until {recorded.target.until_scored_by} scores the session"
    return (
        f"{one_line(new.session_key)}: {score} (automatic: {automatic}, {new.profile_id}, "
        f"{new.scale_min:g} to {new.scale_max:g}). {effect}. The next build updates the tables of "
        f"{new.session_date}."
    )


def _print_leans(leans: Sequence[Lean]) -> None:
    if leans:
        columns = ("profile", "criterion", "corrections #", "too high #", "too low #", "chance")
        title = "The first correction of each session: the automatic score was too high or too low"
        print_table(title, columns, map(_lean_line, leans), essential=6)
    for lean in leans:
        if lean.is_beyond_chance:
            print_error(f"{lean.notice}. See docs/scorecards.md.")


def _lean_line(lean: Lean) -> tuple[object, ...]:
    return (
        f"{lean.profile_id} v{lean.profile_version}",
        lean.criterion_id,
        *(lean.corrections, lean.too_high, lean.corrections - lean.too_high),
        "beyond" if lean.is_beyond_chance else "within",
    )


def _agreement_line(agreement: Agreement) -> tuple[object, ...]:
    name = f"{agreement.profile_id} v{agreement.profile_version}"
    off = _estimate(agreement.off, ".0%")
    if agreement.missing is not None:
        return (name, agreement.sample, agreement.n, off, agreement.missing, None, None, None)
    return (
        *(name, agreement.sample, agreement.n, off),
        *(_estimate(agreement.bias, "+.1f"), _estimate(agreement.mae, ".1f")),
        *(_estimate(agreement.spearman, "+.2f"), _estimate(agreement.kappa, "+.2f")),
    )


def _estimate(estimate: Estimate, number_format: str) -> str | None:
    parts = estimate.value, estimate.low, estimate.high
    value, *ends = (None if part is None else format(part, number_format) for part in parts)
    return value if None in ends else f"{value} ({ends[0]} to {ends[1]})"


def _read_text(file: str) -> str:
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OverrideError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
