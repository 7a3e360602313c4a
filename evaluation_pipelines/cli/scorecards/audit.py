"""Command ``scorecards audit``: review of the audit sample."""

from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated

import typer

from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.scorecards.corrections import ANNOTATOR, override_message
from evaluation_pipelines.judging.score_requests import SessionQuery
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.session_view import session_view
from evaluation_pipelines.scorecards.audit_samples import draw_samples, open_samples, undrawn_dates
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    OverrideError,
    new_override,
    override,
)
from evaluation_pipelines.scorecards.session_lookup import SessionName, Target, find_target
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores

_SKIP, _STOP = "s", "q"
_PROMPT = f"score, Enter = confirm, {_SKIP} = skip, {_STOP} = stop"


def audit(
    annotator: Annotated[str | None, ANNOTATOR] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list the sessions to review.")
    ] = False,
) -> None:
    """Review the random audit sample: confirm or correct each score.

    Samples of missed nights are drawn first.
    """
    if annotator is None and not only_list:
        raise typer.BadParameter("give your name with --annotator, or use --list")
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        draw_samples(stores, undrawn_dates(stores, now.date()), now)
        samples = open_samples(stores)
        if not samples:
            print_line("The audit sample has no session to review.")
        elif only_list:
            rows = [
                (each.session_key, each.profile_id, each.session_date, each.organization_id)
                for each in samples
            ]
            columns = ("session key", "profile", "date", "organization")
            print_table("Sessions to review", columns, rows, essential=2)
        else:
            _review(stores, samples, str(annotator))


def _review(stores: Stores, samples: list[AuditSample], annotator: str) -> None:
    """Ask for a verdict on each sample until the reviewer stops."""
    registry, reviewed = ProfileStore(stores.ledger).registry(), 0
    for number, sample in enumerate(samples, 1):
        name = SessionName(sample.session_key, sample.organization_id, sample.profile_id)
        try:
            target = find_target(stores, registry, name)
        except (SessionNotFoundError, ProfileError) as error:
            print_error(f"{one_line(sample.session_key)} can no longer be reviewed: {error}")
            continue
        _show(stores, target, f"{number} of {len(samples)}")
        verdict = _ask(target, annotator)
        if verdict == _STOP:
            break
        if isinstance(verdict, HumanVerdict):
            recorded = override(stores, target, verdict, "audit", datetime.now(UTC))
            print_line(override_message(recorded))
            reviewed += 1
    left = len(samples) - reviewed
    print_line(f"{pluralize(reviewed, 'session')} reviewed, {left} left to review")


def _ask(target: Target, annotator: str) -> HumanVerdict | str:
    """Return the verdict of the reviewer, _SKIP or _STOP; ask again after an invalid answer."""
    while True:
        text = str(typer.prompt(_PROMPT, default="", show_default=False)).strip()
        if text in (_SKIP, _STOP):
            return text
        try:
            score = float(text) if text else None
        except ValueError:
            print_error(f"{one_line(text)} is not a number")
            continue
        try:
            new_override(target, HumanVerdict(score, annotator, "not given yet"), "audit")
        except OverrideError as error:
            print_error(str(error))
            continue
        reason = "confirmed" if score is None else str(typer.prompt("reason"))
        return HumanVerdict(score, annotator, reason)


def _show(stores: Stores, target: Target, position: str) -> None:
    session, profile, score = target.session, target.profile, target.automatic_score
    key = session["session_key"]
    print_line(f"\n{position}: {one_line(key)}")
    calls = f"{session['tools_ok']} of {session['total_tools']} tool calls succeeded"
    facts = {
        "agent": session["agent_id"],
        "model": session["model"],
        "label": session["classification_label"],
        "started": f"{session['started_at']:%Y-%m-%d %H:%M} UTC",
        "active": f"{session['active_s']:.0f} s",
        "work": f"{pluralize(session['prompts'], 'prompt')}, {calls}, {session['status']}",
        "profile": f"{profile.id} version {profile.version}, "
        f"{profile.scale.min:g} to {profile.scale.max:g}",
        "automatic": None if score is None else f"{score:.1f}",
    }
    for name, value in facts.items():
        print_line(f"  {name:10} {one_line(str('-' if value is None else value))}")
    view = session_view(stores, SessionQuery(key, session["organization_id"]))
    cards = [card for card in view.scorecards if card["profile_id"] == profile.id]
    reasoning = cards[-1]["reasoning"] if cards else None
    # The reasoning can have several lines; each is indented so that none imitates our output.
    for name, part in zip_longest(
        ["because"], filter(None, (reasoning or "-").split("\n")), fillvalue=""
    ):
        print_line(f"  {name:10} {one_line(part)}")
