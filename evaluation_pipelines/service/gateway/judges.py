"""Judge profiles in the form of the gateway."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evaluation_pipelines.judging.rubric_files import check_rubric
from evaluation_pipelines.profiles.domain.profile import criterion_warnings
from evaluation_pipelines.profiles.domain.registry import Registered
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import set_definition, with_next_version
from evaluation_pipelines.service.rows import camel, json_value
from evaluation_pipelines.storage.stores import Stores


def list_judges(stores: Stores) -> dict[str, Any]:
    """Return the newest version of every registered profile."""
    registry = ProfileStore(stores.ledger).registry()
    return {"profiles": [profile_fields(each) for each in registry.newest()]}


def set_judge(stores: Stores, definition: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Register a profile; return it as it is registered now, with warnings about it.

    Raises:
        ProfileError: The definition is no profile, or its rubric does not exist.
        ProfileRefusedError: The version rules refuse it.
    """
    known = ProfileStore(stores.ledger).registry()
    check_rubric(with_next_version(known, definition), stores.settings.judge_rubrics_dir)
    stored = set_definition(stores, definition, now)
    return {
        "profile": profile_fields(stored),
        "warnings": criterion_warnings(stored.profile),
    }


def profile_fields(registered: Registered) -> dict[str, Any]:
    """Return the fields of a profile in camel case, with when and from where it came in."""
    fields = registered.profile.model_dump(mode="json")
    return {
        **{camel(name): _in_camel(value) for name, value in fields.items()},
        "frozenUntil": json_value(registered.profile.frozen_until),
        "origin": registered.origin,
        "registeredAt": json_value(registered.registered_at),
    }


def _in_camel(value: Any) -> Any:
    return {camel(name): each for name, each in value.items()} if isinstance(value, dict) else value
