"""Entries of forgotten people in the file of identities: comments and order of the others stay."""

from collections.abc import Callable

import yaml

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of_any_time


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
