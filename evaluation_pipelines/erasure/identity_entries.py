"""Entries of forgotten people in the file of identities."""

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.domain.identities_text import without_people
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of_any_time


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
    pseudonyms = pseudonyms_of_any_time(context.stores.settings)

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
    return not any(is_gone(each.person_id) for each in people)
