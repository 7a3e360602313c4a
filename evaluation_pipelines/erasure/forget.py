"""Forget a person, a user, a session or an organization in every store and aggregate.

First the keyed hashes of what must not come back are committed: from then on no ingest stores any
of it. Everything after that takes out what these hashes name, wherever it is. A run that is killed
loses nothing of that: the next one, of whatever subject, finds the same hashes and does the rest.

In the file of identities, comments and order of the other people stay.

Tables of many sessions are made again without the forgotten ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import yaml

from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.comparison.prediction import write_predictions
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.landing_files import LandingTrace, landing_traces
from evaluation_pipelines.erasure.ledger_rows import Erasure, Erasures, add_rows, erase_ledger_rows
from evaluation_pipelines.erasure.parts import delete_old_files, erase_parts
from evaluation_pipelines.erasure.selection import (
    ErasureContext,
    NotForgottenError,
    NothingKnownError,
    Selection,
    select,
)
from evaluation_pipelines.judge_changes.anchors import write_judge_changes
from evaluation_pipelines.judging.score_table import last_period, write_missing_tools
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities
from evaluation_pipelines.reporting.analysts_database import served_copy
from evaluation_pipelines.reporting.comparison_report import (
    list_reports,
    refresh_comparison,
    report_files,
)
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reputation.updates import (
    change_reputation,
    clickhouse_exists,
    export_agent_ratings,
    export_reputation,
)
from evaluation_pipelines.schemas import (
    AGENT_SCORES,
    EXTERNAL_SIGNALS,
    JUDGE_CHANGES,
    MASQUE_LIFT,
    MISSING_TOOLS,
    MODEL_COMPARISON,
    OUTCOME_PREDICTIONS,
    REPUTATION_SCORES,
    Table,
)
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import reclaim
from evaluation_pipelines.storage.lock import ERASE, Hold, LockLostError, LockTimeoutError, held
from evaluation_pipelines.storage.store import make_key
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten
from evaluation_pipelines.telemetry.forgotten_events import all_pseudonyms
from evaluation_pipelines.telemetry.ledger.forgotten_store import read_forgotten

_MAKERS: Sequence[tuple[Table, Callable[[Stores, datetime], object]]] = (
    (MASQUE_LIFT, write_masque_lift),
    (JUDGE_CHANGES, write_judge_changes),
    (MISSING_TOOLS, lambda stores, now: write_missing_tools(stores, last_period(now))),
    (OUTCOME_PREDICTIONS, lambda stores, now: write_predictions(stores, now, again=True)),
)
"""Tables without partitions, and what makes each again."""


def make_aggregates_again(context: ErasureContext) -> None:
    """Make tables, reports and the analysts' database again, those that exist.

    Earlier reports and databases are deleted.

    Raises:
        UserError: One of them cannot be made.
    """
    stores, settings = context.stores, context.stores.settings
    for table, make in _MAKERS:
        if _is_written(stores, table):
            make(stores, context.clock())
            context.done(table.name)
    _make_report_again(context)
    if settings.analytics_path.exists():
        published = publish_analytics(stores, context.clock())
        context.hold.check()
        for file in published.file.parent.iterdir():
            if file != published.file:
                file.unlink()
        context.done(settings.analytics_path.name)


def _make_report_again(context: ErasureContext) -> None:
    """Replace the comparison and its report, and delete all other reports that were there."""
    stores, made = context.stores, set[str]()
    files = report_files(stores)
    before = list_reports(files)
    if _is_written(stores, MODEL_COMPARISON):
        report = refresh_comparison(stores, context.clock())
        made = {address.rpartition("/")[2] for address in report.addresses}
        context.done(MODEL_COMPARISON.name)
    context.hold.check()
    for name in before:
        if name not in made:
            files.delete(name)


def erase_reputation(context: ErasureContext) -> None:
    """Take rows out of ClickHouse, if there is one, and compute scores and exports again.

    Raises:
        ClickHouseError: It cannot be used.
        LakeError: An export cannot be written.
    """
    stores, now = context.stores, context.clock()
    if not clickhouse_exists(stores.settings):
        return
    with change_reputation(stores, now) as store:
        erased = store.forget(context.forgotten)
        with writing(stores.ledger.engine) as connection:
            for table, number in erased.items():
                add_rows(connection, context.erasure_id, f"clickhouse {table}", number)
        if _is_written(stores, REPUTATION_SCORES):
            export_reputation(stores, store)
        if _is_written(stores, AGENT_SCORES):
            export_agent_ratings(stores, store, now)
    _erase_rejects(context)
    context.done("clickhouse")


def _is_written(stores: Stores, table: Table) -> bool:
    return bool(stores.lake.parts(table, [None]))


def _erase_rejects(context: ErasureContext) -> None:
    """Take examples of unusable lines out that name what was forgotten."""
    lake = context.stores.lake
    files = lake.read_whole(EXTERNAL_SIGNALS)
    rejects = [
        [row for row in rows if not names_forgotten(row["text"], context.forgotten)]
        for rows in files["rejects"].to_list()
    ]
    kept = files.with_columns(rejects=pl.Series(rejects, dtype=EXTERNAL_SIGNALS.schema["rejects"]))
    if not kept.equals(files):
        lake.write_whole(kept, EXTERNAL_SIGNALS)


def without_people(text: str, is_gone: Callable[[str], bool]) -> str:
    """Return the text of a file of identities without the entries of some people.

    Args:
        text: YAML with a mapping ``people``; a fault in it leaves the text as it is.
        is_gone: Says whether the entry with a ``person_id`` is taken out.
    """
    people = _people(text)
    if people is None:
        return text
    lines = text.splitlines(keepends=True)
    entries = _entries(text, people)
    gone = [entry for person_id, *entry in entries if is_gone(person_id)]
    if len(gone) == len(entries):  # nothing under a name would be a fault
        before = range(people.start_mark.line)
        named = max(number for number in before if lines[number].startswith("people:"))
        lines[named] = lines[named].replace("people:", "people: {}", 1)
    for first, last in reversed(gone):
        del lines[first:last]
    return "".join(lines)


def _entries(text: str, people: yaml.MappingNode) -> list[tuple[str, int, int]]:
    """Return ``person_id``, first line and line after the last of each entry."""
    lines = text.splitlines()
    starts = [key.start_mark.line for key, _ in people.value]
    # A file without a newline at its end has its end in its last line.
    last = people.end_mark.line if people.end_mark.column == 0 else len(lines)
    return [
        (key.value, start, _without_comments(lines, end, key.start_mark.column))
        for (key, _), start, end in zip(people.value, starts, [*starts[1:], last], strict=True)
    ]


def _without_comments(lines: list[str], end: int, column: int) -> int:
    """Return the end of an entry without the comments before the next one."""
    while (text := lines[end - 1].lstrip())[:1] in ("", "#") and (
        not text or len(lines[end - 1]) - len(text) <= column
    ):
        end -= 1
    return end


def _people(text: str) -> yaml.MappingNode | None:
    """Return the mapping of people if its entries are lines of their own."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value != "people" or key.style or not isinstance(value, yaml.MappingNode):
            continue
        return value if value.value and not value.flow_style else None
    return None


def erase_identities(context: ErasureContext) -> bool:
    """Take forgotten people out of the file; return False if one is left in it.

    Entries that cannot be cut out as lines (a file in one line, a fault in it) stay: edit it.

    Raises:
        OSError: The file cannot be read or written.
    """
    path, forgotten = context.stores.settings.identities_path, context.forgotten
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return True
    except UnicodeDecodeError:
        return False
    pseudonyms = all_pseudonyms(context.stores.settings)

    def is_gone(person_id: str) -> bool:
        stored = person_id if pseudonyms is None else pseudonyms.of(person_id)
        return forgotten.has_id(person_id) or forgotten.has_id(stored)

    kept = without_people(text, is_gone)
    if kept != text:
        staged = path.with_name(f".{path.name}.new")
        staged.write_text(kept, encoding="utf-8")
        staged.replace(path)
        context.done(path.name)
    try:
        people = parse_identities(kept, str(path)).people
    except IdentitiesError:
        return False
    return not any(is_gone(person.person_id) for person in people)


@dataclass(frozen=True, slots=True)
class Forgot:
    """Result of forgetting.

    Attributes:
        erasure: Its record.
        selection: What was to be forgotten.
        landing: Landing files that had, or still have, telemetry of it.
        identities_are_clean: False if the file of identities still has an entry.
    """

    erasure: Erasure
    selection: Selection
    landing: Sequence[LandingTrace]
    identities_are_clean: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """Forgets one subject after the other.

    With ``rewrite_landing`` landing files that no other program has open are rewritten. ``done``
    is called after each commit.
    """

    stores: Stores
    requested_by: str
    rewrite_landing: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    done: Callable[[str], None] = lambda _what: None

    def run(self, subject: Subject) -> Forgot:
        """Take every trace of a subject out of every store; run again after an error or a kill.

        Raises:
            NothingKnownError: Nothing is known of the subject; nothing was changed.
            NotForgottenError: Something could not be erased, or ClickHouse may have a copy of the
                tables that nothing here reaches.
            LakeError: A table cannot be read or written.
            LedgerError: The ledger cannot be used.
            ClickHouseError: ClickHouse cannot be used.
        """
        if copy := served_copy(self.stores.settings):
            raise NotForgottenError(f"Nothing was erased: {copy.seen}. First {copy.advice}.")
        timeout_s = self.stores.settings.lock_timeout_seconds
        try:
            with held(self.stores.ledger, ERASE, timeout_s=timeout_s) as hold:
                return self._run(subject, hold)
        except LockTimeoutError as error:
            if error.name == ERASE:
                raise NotForgottenError(f"Another erasure is running: {error}") from error
            raise NotForgottenError(
                f"The erasure is not complete: {error} Run this again."
            ) from error
        except LockLostError as error:
            raise NotForgottenError(
                f"The erasure is not complete. {error} Run this again."
            ) from error

    def _run(self, subject: Subject, hold: Hold) -> Forgot:
        selection = select(self.stores, subject)
        known = read_forgotten(self.stores.ledger, self.stores.settings.forgotten_key_path)
        if selection.is_empty and not is_known(known, subject):
            raise NothingKnownError(subject, selection.people)
        context = self._begun(selection, hold)
        erase_ledger_rows(hold, context.forgotten, context.erasure_id)
        context.done("ledger")
        is_clean = erase_identities(context)
        erase_parts(context)
        # Whatever a judge that was at work has written meanwhile.
        erase_ledger_rows(hold, context.forgotten, context.erasure_id)
        erase_reputation(context)
        make_aggregates_again(context)
        delete_old_files(context)
        landing = landing_traces(context, rewrite=self.rewrite_landing)
        hold.check()
        reclaim(self.stores.ledger)
        context.done("ledger files")
        erasures = Erasures(self.stores.ledger)
        erasures.complete(self.clock())
        (erasure,) = (
            erasure for erasure in erasures.all() if erasure.erasure_id == context.erasure_id
        )
        return Forgot(erasure, selection, landing, is_clean)

    def _begun(self, selection: Selection, hold: Hold) -> ErasureContext:
        """Commit what must not come back."""
        settings, subject, now = self.stores.settings, selection.subject, self.clock()
        forgotten = Forgotten(make_key(settings.forgotten_key_path))
        hashes = hashes_of(selection, forgotten, now)
        erasures = Erasures(self.stores.ledger)
        erasure_id = erasures.begin(subject.kind, self.requested_by, hashes, now)
        self.done("hashes")
        forgotten = read_forgotten(self.stores.ledger, settings.forgotten_key_path)
        return ErasureContext(self.stores, forgotten, erasure_id, hold, self.clock, self.done)


def is_known(forgotten: Forgotten, subject: Subject) -> bool:
    """Return True if a subject was forgotten before, perhaps not to the end."""
    match subject.kind:
        case "session":
            return forgotten.hash_of("session_id", subject.value) in forgotten.hashes
        case "organization":
            return forgotten.has_organization(subject.value)
        case _:
            return forgotten.has_id(subject.value)


def hashes_of(
    selection: Selection, forgotten: Forgotten, now: datetime
) -> dict[str, datetime | None]:
    """Return the hashes of a selection, with the time up to which each counts.

    A session never comes back; what a person or an organization does from ``now`` on is new.
    """
    hashes: dict[str, datetime | None] = {
        hashed: None
        for organization, session in selection.sessions.iter_rows()
        for hashed in forgotten.session_hashes(organization, session)
    }
    hashes |= {forgotten.id_hash(identifier): now for identifier in selection.ids}
    if selection.subject.kind == "organization":
        hashes[forgotten.hash_of("organization", selection.subject.value)] = now
    return hashes
