"""What every step of an erasure needs, its errors, and the stores that it does not reach."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten


@dataclass(frozen=True, slots=True)
class ErasureContext:
    """An erasure under way.

    Attributes:
        stores: Where to erase.
        forgotten: All that was ever forgotten: each erasure also does what an interrupted one left.
        erasure_id: The erasure that counts the rows.
        hold: The lock of the erasure: checked before each change that is no commit of a part.
        clock: Returns the current time.
        report: Called after each commit with a few words on it, to show progress.
    """

    stores: Stores
    forgotten: Forgotten
    erasure_id: int
    hold: Hold
    clock: Callable[[], datetime]
    report: Callable[[str], None]

    def done(self, what: str) -> None:
        """Report a commit, and note that the erasure goes on."""
        self.hold.note_progress()
        self.report(what)


_WHERE = {
    "person": "people list shows who is known, people list unknown the rest",
    "user": "people list unknown shows the ids that telemetry has",
    "session": "sessions lists them",
    "organization": "sessions lists them",
}


class NothingKnownError(UserError):
    """Nothing is known of what is to be forgotten; nothing was changed."""

    def __init__(self, subject: Subject, people: Sequence[str] = ()) -> None:
        super().__init__(
            f"Nothing is known of the {subject.kind} {subject.value!r}: "
            f"{_what_to_type(subject, people)}. Telemetry that was not read yet is known after: "
            "evaluation-pipelines ingest"
        )


def _what_to_type(subject: Subject, people: Sequence[str]) -> str:
    if people:
        named = " or ".join(f"--person {shlex.quote(each)}" for each in people)
        return f"the identities have it, forget {named} takes all of that person"
    if subject.kind == "session" and "#" in subject.value:
        own = shlex.quote(subject.value.rpartition("#")[0])
        return f"a session goes whole, type --session {own}"
    return _WHERE[subject.kind]


class NotForgottenError(UserError):
    """Something could not be erased; what was done stays done, and another run does the rest."""


_ALWAYS = (
    ("Dagster's storage and logs", "previews of tables hold ids: dagster run delete, and its logs"),
    ("access logs of the service and of proxies", "they belong to their operators"),
    ("providers of the judge", "prompts and batch files are deleted by the provider's rules"),
    ("keys of the service", "names of keys are given by hand: keys revoke"),
    ("what others wrote", "it is in their sessions: forget these, or let texts expire"),
    ("copies and exports", "what was exported, sent to webhooks or lies in backups stays there"),
)
_POSTGRESQL = ("write-ahead log of PostgreSQL", "the server reuses it. Archives are backups")
_SOURCE = ("otel_logs in ClickHouse", "it belongs to its collector: delete from there, or its TTL")
_SERVER = ("logs of the ClickHouse server", "its query log is deleted by its own rules")


def exempt_stores(settings: Settings) -> list[tuple[str, str]]:
    """Return the stores that keep what they have, each with the reason."""
    found = list(_ALWAYS)
    if settings.ledger_url.startswith("postgresql"):
        found.append(_POSTGRESQL)
    if settings.clickhouse_dsn is not None:
        found.append(_SERVER)
    if settings.otel_logs_dsn is not None:
        found.append(_SOURCE)
    return found
