"""Commands ``profiles``: list, register and switch judge profiles."""

from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml

from evaluation_pipelines.cli.conventions import ListGroup
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record, write_rows
from evaluation_pipelines.judging.rubric_files import check_rubric
from evaluation_pipelines.profiles.domain.profile import (
    ANY_LABEL,
    JudgeProfile,
    ProfileError,
    criterion_warnings,
)
from evaluation_pipelines.profiles.domain.registry import Registered, Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import (
    Synced,
    preview_sync,
    read_profile,
    set_definition,
    set_profile,
    switch_profile,
    sync_profiles,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.ledger.errors import NoLedgerError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

app = typer.Typer(cls=ListGroup, help="List and change judge profiles.")

_USUAL_LABELS = ("simple", "code", "complex", "multi-step", "general", ANY_LABEL)
_COLUMNS = (
    *("profile", "version #", "method", "labels", "state", "criteria #", "registered (UTC)"),
    "name",
)
_ID = typer.Argument(metavar="PROFILE", help="A profile id.")


class Switch(StrEnum):
    """Whether a profile scores sessions."""

    ON = "on"
    OFF = "off"


@app.command("list")
def list_profiles(
    profile_id: Annotated[
        str | None, typer.Argument(metavar="[PROFILE]", help="Print this profile, in YAML.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="With PROFILE: version. Default: the latest.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also older versions.")] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """List profiles, also new ones in files, or print one with all defaults."""
    now, settings = datetime.now(UTC), load_settings()
    if profile_id is None and version is not None:
        raise typer.BadParameter("--version requires PROFILE")
    if profile_id is not None and every:
        raise typer.BadParameter("give either PROFILE or --all")
    synced = _synced_profiles(settings, now)
    if profile_id is not None:
        _print_profile(synced.registry.find(profile_id, version), now, form)
        return
    versions = synced.registry.versions if every else synced.registry.newest()
    if form is OutputFormat.TABLE:
        print_table("Judge profiles", _COLUMNS, [_cells(entry, now) for entry in versions], 4)
        print_line(f"add your profiles to {settings.profiles_dir}/*.yaml")
    else:
        write_rows([_record(entry, now) for entry in versions], form)
    for fault in synced.faults:
        print_error(f"warning: {fault}")
    for registered in synced.registry.newest():
        _warn_if_criteria_are_unknown(registered.profile)


def _cells(registered: Registered, now: datetime) -> tuple[object, ...]:
    profile = registered.profile
    return (
        *(profile.id, profile.version, profile.method, ", ".join(profile.match_labels)),
        *(_state(registered, now), len(profile.computed) + len(profile.judged)),
        *(_registered(registered, now), profile.name),
    )


def _record(registered: Registered, now: datetime) -> dict[str, object]:
    """Return a profile with all defaults, and how it is registered."""
    return {
        "profile_id": registered.profile.id,
        "profile_version": registered.profile.version,
        "state": _state(registered, now),
        "registered_at": None if registered.registered_at == now else registered.registered_at,
        "content_hash": registered.profile.content_hash,
        "profile": registered.profile.model_dump(mode="json", exclude_none=True),
    }


def _print_profile(found: Registered, now: datetime, form: OutputFormat) -> None:
    """Print a profile with all defaults: in YAML for people, else as a record."""
    if form is not OutputFormat.TABLE:
        write_record(_record(found, now), form)
        return
    print_line(f"# registered: {_registered(found, now)}, {_state(found, now)}")
    print_line(f"# content {found.profile.content_hash[:16]}")
    if found.profile.judged:
        points = ", ".join(f"{name} {most}" for name, most in found.profile.judge_points.items())
        print_line(f"# judge points: {points}")
    fields = found.profile.model_dump(mode="json", exclude_none=True)
    print_line(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100).rstrip("\n"))


@app.command("set")
def set_one(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A profile in YAML.")],
    rescore_history: Annotated[
        bool,
        typer.Option("--rescore-history", help="Also score older sessions with this version."),
    ] = False,
) -> None:
    """Register a profile, a new version, or a change that needs no new version."""
    now = datetime.now(UTC)
    with open_stores(load_settings()) as stores:
        check_rubric(read_profile(file), stores.settings.judge_rubrics_dir)
        registered = set_profile(stores, file, now, rescore_history=rescore_history)
        if registered is None:
            print_line(f"{_name(read_profile(file))} is already registered, nothing changed")
        else:
            what = "registered" if registered.registered_at == now else "changed"
            print_line(f"{_name(registered.profile)} is {what}")
            _warn_if_criteria_are_unknown(registered.profile)
            _warn_if_labels_are_unknown(registered.profile, stores)
        if due := len(RebuildQueue(stores.ledger).pending(now)):
            print_line(f"The next build scores sessions with it: {pluralize(due, 'date')} due")


@app.command("switch")
def switch(
    profile_id: Annotated[str, _ID],
    state: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether it scores sessions.")],
) -> None:
    """Turn a profile on or off: `enabled` in its file, or in the ledger if the API set it."""
    now, enabled = datetime.now(UTC), state is Switch.ON
    with open_stores(load_settings()) as stores:
        known = sync_profiles(stores, now).registry.history(profile_id)
        if known and known[-1].origin == "api":
            fields = {**known[-1].profile.model_dump(mode="json"), "enabled": enabled}
            set_definition(stores, fields, now)
            where = "set over the API"
        else:
            where = str(_switch_file(stores, profile_id, now, enabled=enabled))
        due = len(RebuildQueue(stores.ledger).pending(now))
    print_line(f"{one_line(profile_id)} is {state} ({where}): {pluralize(due, 'date')} due")


def _switch_file(stores: Stores, profile_id: str, now: datetime, *, enabled: bool) -> Path:
    path = switch_profile(stores.settings.profiles_dir, profile_id, enabled=enabled)
    synced = sync_profiles(stores, now)
    if synced.registry.find(profile_id).profile.enabled is not enabled:
        raise ProfileError(
            f"{one_line(profile_id)} stays as it is: "
            f"{'. '.join(synced.faults) or f'{path} has an older version of it'}"
        )
    return path


def _warn_if_labels_are_unknown(profile: JudgeProfile, stores: Stores) -> None:
    """Warn of a label that no session has, if it resembles one that sessions have."""
    lake = stores.lake
    dates = lake.partitions(AGENT_SESSIONS)
    column = lake.read(AGENT_SESSIONS, dates, ["classification_label"])["classification_label"]
    known = {*_USUAL_LABELS, *column.unique().to_list()}
    for label in profile.match_labels:
        if label not in known and (near := get_close_matches(label, known, n=1)):
            print_error(f"warning: no session has the label {label}. Did you mean {near[0]}?")


def _synced_profiles(settings: Settings, now: datetime) -> Synced:
    """Return the profiles as the next build will have them, without writing anything."""
    try:
        with read_stores(settings) as stores:
            registry = ProfileStore(stores.ledger).registry()
    except NoLedgerError:  # nothing was built yet, so there are only files
        registry = Registry()
    return preview_sync(settings, registry, now)


def _registered(registered: Registered, now: datetime) -> str:
    """Return the registration time; the next build registers a version that is only in a file."""
    time = registered.registered_at
    return "next build" if time == now else f"{time:%Y-%m-%d %H:%M}"


def _warn_if_criteria_are_unknown(profile: JudgeProfile) -> None:
    for warning in criterion_warnings(profile):
        print_error(f"warning: {warning}")


def _name(profile: JudgeProfile) -> str:
    return f"{one_line(profile.id)} version {profile.version}"


def _state(registered: Registered, now: datetime) -> str:
    if not registered.profile.enabled:
        return "off"
    until = registered.frozen_at(now)
    return "on" if until is None else f"frozen until {until:%Y-%m-%d %H:%M}"
