"""Entries of a file of identities, as text: comments and order of the others stay."""

from collections.abc import Callable

import yaml


def without_people(text: str, is_gone: Callable[[str], bool]) -> str:
    """Return the text of a file of identities without the entries of some people.

    Args:
        text: YAML with a mapping ``people``; a fault in it leaves the text as it is.
        is_gone: Says whether the entry with a ``person_id`` is taken out.
    """
    lines = text.splitlines(keepends=True)
    for first, last in reversed(_entries(text, is_gone)):
        del lines[first:last]
    return "".join(lines)


def _entries(text: str, is_gone: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return first line and line after the last of the entries to take out."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return []
    people = _people(root)
    if people is None or people.flow_style:
        return []
    lines = text.splitlines()
    starts = [key.start_mark.line for key, _ in people.value]
    # A file without a newline at its end has its end in its last line.
    last = people.end_mark.line if people.end_mark.column == 0 else len(lines)
    return [
        (start, _without_comments(lines, end, key.start_mark.column))
        for (key, _), start, end in zip(people.value, starts, [*starts[1:], last], strict=True)
        if is_gone(key.value)
    ]


def _without_comments(lines: list[str], end: int, column: int) -> int:
    """Return the end of an entry without the comments before the next one."""
    while (text := lines[end - 1].lstrip())[:1] in ("", "#") and (
        not text or len(lines[end - 1]) - len(text) <= column
    ):
        end -= 1
    return end


def _people(root: yaml.Node | None) -> yaml.MappingNode | None:
    if not isinstance(root, yaml.MappingNode):
        return None
    for key, value in root.value:
        if key.value == "people" and isinstance(value, yaml.MappingNode):
            return value
    return None
