"""The command with which people work through the audit sample."""

from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated

import typer

from evaluation_pipelines.cli.corrections import ANNOTATOR, told
from evaluation_pipelines.cli.output import counted, one_line, print_error, print_line, print_table
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.scorecards.audit_samples import draw_samples, open_samples, undrawn_dates
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    OverrideError,
    new_override,
    override,
)
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.session_lookup import SessionName, Target, find_target
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores

_SKIP, _STOP = "s", "q"
_QUESTION = f"score, Enter = right as it is, {_SKIP} = skip, {_STOP} = stop"


def audit(
    annotator: Annotated[str | None, ANNOTATOR] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only say which sessions are waiting.")
    ] = False,
) -> None:
    """Work through the random sample: confirm each score or give a better one.

    Samples of nights that nobody drew are drawn first.
    """
    if annotator is None and not only_list:
        raise typer.BadParameter("say who you are with --annotator, or use --list")
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        draw_samples(stores, undrawn_dates(stores, now.date()), now)
        samples = open_samples(stores)
        if not samples:
            print_line("No session of the audit sample is waiting.")
        elif only_list:
            rows = [
                (each.session_key, each.profile_id, each.session_date, each.organization_id)
                for each in samples
            ]
            columns = ("session key", "profile", "date", "organization")
            print_table("Waiting for a look", columns, rows, essential=2)
        else:
            _work_through(stores, samples, str(annotator))


def _work_through(stores: Stores, samples: list[AuditSample], annotator: str) -> None:
    registry = ProfileStore(stores.ledger).registry()
    done = 0
    for number, sample in enumerate(samples, start=1):
        wanted = SessionName(sample.session_key, sample.organization_id, sample.profile_id)
        try:
            target = find_target(stores, registry, wanted)
        except (SessionNotFoundError, ProfileError) as error:
            print_error(f"{one_line(sample.session_key)} cannot be looked at any more: {error}")
            continue
        _show(stores, target, f"{number} of {len(samples)}")
        verdict = _ask(target, annotator)
        if verdict == _STOP:
            break
        if isinstance(verdict, HumanVerdict):
            print_line(told(override(stores, target, verdict, "audit", datetime.now(UTC))))
            done += 1
    print_line(f"{counted(done, 'session')} looked at, {len(samples) - done} still waiting")


def _ask(target: Target, annotator: str) -> HumanVerdict | str:
    """What the person says; _SKIP or _STOP. Asked again until it is one of them."""
    while True:
        text = str(typer.prompt(_QUESTION, default="", show_default=False)).strip()
        if text in (_SKIP, _STOP):
            return text
        try:
            score = float(text) if text else None
        except ValueError:
            print_error(f"{one_line(text)} is not a number")
            continue
        try:
            new_override(target, HumanVerdict(score, annotator, "not asked yet"), "audit")
        except OverrideError as error:
            print_error(str(error))
            continue
        reason = "confirmed" if score is None else str(typer.prompt("reason"))
        return HumanVerdict(score, annotator, reason)


def _show(stores: Stores, target: Target, where: str) -> None:
    session, profile, score = target.session, target.profile, target.automatic_score
    print_line(f"\n{where}: {one_line(session['session_key'])}")
    calls = f"{session['tools_ok']} of {session['total_tools']} tool calls succeeded"
    facts = {
        "agent": session["agent_id"],
        "model": session["model"],
        "label": session["classification_label"],
        "started": f"{session['started_at']:%Y-%m-%d %H:%M} UTC",
        "active": f"{session['active_s']:.0f} s",
        "work": f"{counted(session['prompts'], 'prompt')}, {calls}, {session['status']}",
        "profile": f"{profile.id} version {profile.version}, "
        f"{profile.scale.min:g} to {profile.scale.max:g}",
        "automatic": None if score is None else f"{score:.1f}",
    }
    for name, value in facts.items():
        print_line(f"  {name:10} {one_line(str('-' if value is None else value))}")
    # What a judge wrote has lines; none of them may look like one of ours.
    because = (_reasoning(stores, target) or "-").split("\n")
    for name, part in zip_longest(["because"], filter(None, because), fillvalue=""):
        print_line(f"  {name:10} {one_line(part)}")


def _reasoning(stores: Stores, target: Target) -> str | None:
    key = target.session["session_key"]
    cards = query_cards(stores, CardQuery(session=key, profile=target.profile.id))
    organization = target.session["organization_id"]
    found = [
        row["reasoning"]
        for row in cards.iter_rows(named=True)
        if row["organization_id"] == organization
    ]
    return found[-1] if found else None
