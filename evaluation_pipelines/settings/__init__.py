"""Every setting: an environment variable or a line of ``.env`` with the prefix ``EVAL_``.

Only the endpoint of the judge uses the names of OpenAI clients, without the prefix.

Settings are read at the edge (terminal, Dagster) and passed on as values. Their sections:

* ``data``: stores, engine, telemetry, people, expiry.
* ``judging``: judge, scorecards, comparisons. ``exclusions``: rules of users.
* Also: the service, alerts, exports, night, reputation.
"""

import logging
import os
from functools import cache

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.settings.data import (
    EngineSettings,
    ExpirySettings,
    PeopleSettings,
    StoreSettings,
    TelemetrySettings,
)
from evaluation_pipelines.settings.judging import (
    ComparisonSettings,
    JudgeSettings,
    ScorecardSettings,
)
from evaluation_pipelines.settings.service import (
    AlertSettings,
    ExportSettings,
    NightSettings,
    ReputationSettings,
    ServiceSettings,
)

PREFIX = "EVAL_"

REMOVED = {
    "EVAL_LEASE_SECONDS": "set EVAL_LOCK_TIMEOUT_SECONDS instead",
    "EVAL_JUDGE_LEASE_SECONDS": "one judge works at a time, and its death is noticed at once",
    "EVAL_JUDGE_ORDERS_MISSING_TOOLS": "missing tools are counted, no model is asked for an order",
    "EVAL_JUDGE_BATCH_POLL_SECONDS": "a batch is polled every 5 minutes",
    "EVAL_JUDGE_BREAKER_FAILURES": "five calls in a row may fail",
    "EVAL_FUTURE_TOLERANCE_MINUTES": "an event may be 5 minutes in the future",
    "EVAL_RECEIVE_BODY_SECONDS": "a request must arrive within 30 seconds",
    "EVAL_RECEIVE_FILE_BYTES": "files of received telemetry have up to 64 MiB",
}
"""Removed setting -> what to do."""

_SIMILAR = 0.8
"""Share of equal characters from which a name counts as a misspelled one."""

_log = logging.getLogger(__name__)


class SettingsError(UserError, ValueError):
    """A setting with an invalid value; the message names the variable and what is allowed."""


# The page of settings lists fields from the last base to the first.
class Settings(
    ServiceSettings,
    AlertSettings,
    ExportSettings,
    NightSettings,
    ComparisonSettings,
    ReputationSettings,
    ScorecardSettings,
    JudgeSettings,
    ExpirySettings,
    PeopleSettings,
    TelemetrySettings,
    EngineSettings,
    StoreSettings,
):
    """All settings of one run.

    Creating it raises ``pydantic.ValidationError``; call ``load_settings`` for a readable message.
    """


def variable_of(field_name: str) -> str:
    """Return the environment variable of a field of ``Settings``."""
    alias = Settings.model_fields[field_name].validation_alias
    return alias if isinstance(alias, str) else PREFIX + field_name.upper()


def load_settings() -> Settings:
    """Read the settings of this process; warn once of each removed or misspelled one.

    Raises:
        SettingsError: with one line per invalid variable.
    """
    given = _variables()
    variables = {name: variable_of(name) for name in Settings.model_fields}
    for name in given:
        if name not in variables.values():
            _warn_of(name)
    chosen = {name: given[variable] for name, variable in variables.items() if variable in given}
    try:
        return Settings.model_validate(chosen)
    except ValidationError as error:
        faults = [_fault(detail) for detail in error.errors() if _has_own_fault(detail)]
        message = "These settings cannot be used:\n" + "\n".join(faults)
        # The cause would print the values again, and a ledger URL may hold a password.
        raise SettingsError(message) from None


def _variables() -> dict[str, str]:
    """Return what is set and not empty: the environment counts before the file."""
    sources = (dotenv_values(".env"), os.environ)
    return {name.upper(): text for source in sources for name, text in source.items() if text}


@cache
def _warn_of(name: str) -> None:
    """Warn of a removed setting, or of a name that is similar to that of a setting.

    Other programs may have variables with the same prefix.
    """
    if name in REMOVED:
        _log.warning("%s no longer has an effect: %s", name, REMOVED[name])
    elif name.startswith(PREFIX):
        from difflib import get_close_matches  # rarely needed

        known = map(variable_of, Settings.model_fields)
        if similar := get_close_matches(name, known, n=2, cutoff=_SIMILAR):
            _log.warning("%s is not a setting. Similar: %s", name, ", ".join(similar))


def _has_own_fault(detail: ErrorDetails) -> bool:
    # Pydantic also reports defaults that derive from an invalid setting.
    return detail["type"] != "default_factory_not_called"


def _fault(detail: ErrorDetails) -> str:
    # ``loc`` is the alias of a field if it has one, otherwise its name.
    name = str(detail["loc"][0]).lower()
    field = Settings.model_fields[name]
    given = f"={detail['input']!r}" if field.repr else ""
    reason = detail["msg"].removeprefix("Value error, ")
    return f"  {variable_of(name)}{given}: {reason}. Meaning: {field.description}."
