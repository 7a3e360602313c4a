"""Command ``scorecards audit``: blind review of the audit sample."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated

import click
import typer

from evaluation_pipelines.cli.filters import with_session_filter
from evaluation_pipelines.cli.output import (
    OutputFormat,
    fenced,
    one_decimal,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.cli.scorecards.corrections import ANNOTATOR
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.scorecards.audit_review import (
    AuditReview,
    RecordedAnswer,
)
from evaluation_pipelines.scorecards.audit_samples import draw_samples, undrawn_dates
from evaluation_pipelines.scorecards.blind_reviews import key_of
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample
from evaluation_pipelines.scorecards.open_samples import open_samples
from evaluation_pipelines.scorecards.overrides import OverrideError, plain_number
from evaluation_pipelines.scorecards.review_material import (
    WHOLE_TRANSCRIPT,
    current_card,
    review_criteria,
    review_facts,
    review_transcript,
)
from evaluation_pipelines.scorecards.session_lookup import Target
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.queries import QueryError
from evaluation_pipelines.storage.stores import Stores, open_stores

_SKIP, _TRANSCRIPT, _STOP = "s", "t", "q"
_NAMES = ("session_key", "organization_id", "session_date", "profile_id", "drawn_at")
"""What a reviewer may know of a sample: neither its model nor its label."""

_SCREEN_TOKENS = 4000
"""Estimated tokens of the transcript on the screen; the pager shows all of it."""


@with_session_filter
def audit(
    annotator: Annotated[str | None, ANNOTATOR] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue your last round; skipped sessions come last.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list the sessions to review.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back your last answer, such as a mistyped one.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --list: only the oldest N.")
    ] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Score the audit sample blindly: your score first, then the automatic one.

    A round goes through all sessions without an answer. Every answer is stored at once. Conditions
    on sessions require --list: a sample of which only some are answered says less about the rest.
    """
    if not (only_list or (which.is_empty and limit is None)):
        raise typer.BadParameter("conditions on sessions and --limit require --list")
    if form is not OutputFormat.TABLE and not only_list:
        raise typer.BadParameter(f"--format {form} requires --list: a review is a conversation")
    if annotator is None and not only_list:
        raise typer.BadParameter("give your name with --annotator, or use --list")
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        if undo:
            _undo(AuditReview(stores, str(annotator)), now)
            return
        draw_samples(stores, undrawn_dates(stores, now.date()), now)
        samples = open_samples(stores, which)
        if form is not OutputFormat.TABLE:
            records = [{name: getattr(each, name) for name in _NAMES} for each in samples[:limit]]
            write_rows(records, form, _NAMES)
        elif not samples:
            chosen = "" if which.is_empty else " among these sessions"
            print_line(f"The audit sample has no session to review{chosen}.")
        elif only_list:
            rows = [
                (each.session_key, each.profile_id, each.session_date, each.organization_id)
                for each in samples[:limit]
            ]
            columns = ("session key", "profile", "date", "organization")
            print_table("Sessions to review", columns, rows, essential=2)
        else:
            review = AuditReview(stores, str(annotator))
            (review.resume if resume else review.begin)(now)
            _review(stores, review)


def _undo(review: AuditReview, now: datetime) -> None:
    """Take back the last answer, and print what that means."""
    undone = review.undo(now)
    if undone is None:
        print_line("You have no answer to take back.")
        return
    _, key, score = undone
    print_line(
        f"{one_line(key)}: your answer {score:g} does not count any longer. You have seen the "
        "automatic score, so other reviewers are asked; to correct the score itself: "
        "scorecards override."
    )


def _review(stores: Stores, review: AuditReview) -> None:
    """Show one session after the other until none is left, or the reviewer stops."""
    # Polars installs a handler after which a read goes on: Ctrl-C would wait for the next Enter.
    signal.siginterrupt(signal.SIGINT, True)
    seen, gone = set[SessionKey](), set[SessionKey]()
    try:
        while (sample := review.next_sample(seen, datetime.now(UTC))) is not None:
            seen.add(key_of(sample))
            try:
                target = review.target(sample)
            except (SessionNotFoundError, ProfileError) as error:
                print_error(f"{one_line(sample.session_key)} can no longer be reviewed: {error}")
                gone.add(key_of(sample))
            else:
                _review_one(stores, review, sample, target)
    except (click.Abort, KeyboardInterrupt):
        print_line()
    progress = review.progress()
    print_line(f"{progress}.")
    if review.next_sample(gone, datetime.now(UTC)) is not None:
        print_line("Nothing is lost: continue with scorecards audit --resume.")


def _review_one(stores: Stores, review: AuditReview, sample: AuditSample, target: Target) -> None:
    review.show(sample, datetime.now(UTC))
    print_line(f"\n{review.progress()}")
    _show_work(stores, target)
    answered = _ask(stores, review, target)
    if answered is None:
        review.skip(sample, datetime.now(UTC))
        return
    if not answered.is_answer:
        print_line(
            "Another reviewer has answered this session meanwhile: that answer counts for the "
            "sample, and yours is stored as an ordinary override."
        )
    _show_score(stores, answered)
    _ask_why(review, answered)


def _ask(stores: Stores, review: AuditReview, target: Target) -> RecordedAnswer | None:
    """Store the reviewer's score; return ``None`` to skip. An invalid answer is asked again."""
    scale = target.profile.scale
    question = (
        f"your score, {scale.min:g} to {scale.max:g} ({_SKIP} = skip, "
        f"{_TRANSCRIPT} = whole transcript, {_STOP} = stop)"
    )
    while True:
        text = str(typer.prompt(question, default="", show_default=False)).strip()
        if text == _SKIP:
            return None
        if text == _STOP:
            raise click.Abort  # as Ctrl-C and a closed terminal do
        if text == _TRANSCRIPT:
            click.echo_via_pager(f"{_transcript(stores, target, WHOLE_TRANSCRIPT)}\n")
            continue
        try:
            return review.answer(target, plain_number(text), datetime.now(UTC))
        except OverrideError as error:
            print_error(str(error))
        except ValueError:
            hint = f"{one_line(text)} is not a number" if text else "Type a score"
            print_error(f"{hint}: the automatic score is shown after your answer.")


def _ask_why(review: AuditReview, answered: RecordedAnswer) -> None:
    """Ask for a reason and a criterion, which may both be left out, and store each at once."""
    reason = _ask_until_stored("reason", lambda text: _explain(review, answered, text, None))
    if answered.recorded.new.is_confirmation:
        return
    ids = ", ".join(answered.recorded.target.profile.criterion_ids)
    _ask_until_stored(
        f"criterion that was wrong, if one of {ids}",
        lambda text: _explain(review, answered, reason, text),
    )


def _explain(
    review: AuditReview, answered: RecordedAnswer, reason: str | None, criterion: str | None
) -> None:
    review.explain(answered, reason or "", criterion, datetime.now(UTC))


def _ask_until_stored(question: str, store: Callable[[str], None]) -> str | None:
    """Return the text that was stored; ``None`` if it was left out. Ask again if it is invalid."""
    while (text := _optional(question)) is not None:
        try:
            store(text)
        except OverrideError as error:
            print_error(str(error))
        else:
            return text
    return None


def _optional(question: str) -> str | None:
    text = str(typer.prompt(f"{question} (Enter = none)", default="", show_default=False))
    return text.strip() or None


def _show_work(stores: Stores, target: Target) -> None:
    """Print facts, criteria and transcript of a session; neither its score nor its model."""
    _print_facts({"session": target.session["session_key"], **review_facts(target)})
    criteria = [
        f"{each.id}, {each.weight:.0%}: {each.description}"
        for each in review_criteria(target.profile, stores.settings)
    ]
    for name, text in zip_longest(["criteria"], criteria, fillvalue=""):
        print_line(f"  {name:10} {one_line(text)}")
    print_line(_transcript(stores, target, _SCREEN_TOKENS))


def _transcript(stores: Stores, target: Target, max_tokens: int) -> str:
    """Return the fenced task, which is the first prompt, and the fenced transcript."""
    try:
        found = review_transcript(stores, target, max_tokens, datetime.now(UTC))
    except (LakeError, QueryError) as error:
        return f"  transcript none: {one_line(str(error))}"
    if found is None:
        return f"  transcript none: the session has just continued; {_SKIP} leaves it for later"
    notes = []
    if found.content_level == "none":
        notes.append("without texts: only what happened and when")
    if found.truncated:
        notes.append(f"shortened; {_TRANSCRIPT} shows the whole")
    if redacted := sum(found.redactions.values()):
        notes.append(f"{pluralize(redacted, 'secret')} removed")
    heading = f"  transcript {'; '.join(notes)}".rstrip()
    return f"  task\n{fenced(found.task)}\n{heading}\n{fenced(found.text)}"


def _show_score(stores: Stores, answered: RecordedAnswer) -> None:
    """Print the automatic score, its reasons, and how far the answer is from it."""
    new, target = answered.recorded.new, answered.recorded.target
    session, card = target.session, current_card(stores, target)
    criteria = ", ".join(
        f"{each['key']} {one_decimal(each['value']) or 'unknown'}"
        for each in card.get("criteria_scores") or ()
    )
    print_line(f"\nstored: {new.override_score:g}")
    _print_facts(
        {
            "automatic": answered.automatic,
            "criteria": criteria or None,
            "agent": session["agent_id"],
            "model": session["model"],
        }
    )
    print_line("  because")
    print_line(fenced(card.get("reasoning") or "-"))


def _print_facts(facts: dict[str, object]) -> None:
    for name, value in facts.items():
        print_line(f"  {name:10} {one_line(str('-' if value is None else value))}")
