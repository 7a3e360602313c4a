"""Parse the file of identities: YAML in, people out, every fault with its line.

Texts are taken as written: an id such as ``0123`` or ``yes`` stays a text.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import combinations
from typing import NamedTuple, TypeVar

import yaml

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.people.domain.identities import (
    ID_KINDS,
    Identifier,
    Identities,
    IdKind,
    Membership,
    Person,
)
from evaluation_pipelines.telemetry.domain.dialects.registry import SOURCE_CLIS

_MAX_CHARACTERS = 200
# Most builds of PyYAML include the fast loader; both loaders read plain data only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"

Entry = TypeVar("Entry", Identifier, Membership)


class IdentitiesError(UserError, ValueError):
    """A file of identities that cannot be used; the message has a line per fault."""


class _FaultError(Exception):
    def __init__(self, node: yaml.Node, reason: str) -> None:
        super().__init__(f"line {_line(node)}: {reason}")


class _Located(NamedTuple):
    """An id or a membership with its line and the person who has it."""

    what: Identifier | Membership
    line: int
    person_id: str


def parse_identities(text: str, source: str) -> Identities:
    """Return the people of a file.

    Args:
        text: Content of the file; an empty one has no people.
        source: Name of the file, for messages.

    Raises:
        IdentitiesError: The text is not YAML or says something that is not allowed, such as an id
            of two people at one time. The message has every fault with its line.
    """
    try:
        # Aliases are refused: with them a small file can expand to any size.
        events = yaml.parse(text, Loader=_LOADER)
        has_aliases = any(isinstance(event, yaml.AliasEvent) for event in events)
        root = None if has_aliases else yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise IdentitiesError(f"{source} is not YAML: {error}") from None
    if has_aliases:
        raise IdentitiesError(f"{source} has YAML aliases (*name). Write out the values")
    if root is None:
        return Identities()
    parser = _Parser()
    people = sorted(parser.people(root), key=lambda person: person.person_id)
    if not parser.faults:
        parser.faults += _conflicts(parser.located)
    if parser.faults:
        raise IdentitiesError("\n".join(f"{source}, {fault}" for fault in parser.faults))
    return Identities(people=tuple(people))


class _Parser:
    """Reads the nodes of a file, and collects faults and the lines of ids."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.located: list[_Located] = []

    def people(self, root: yaml.Node) -> Iterator[Person]:
        try:
            people = _mapping(_mapping(root, "the file", ["people"])["people"], "people")
        except (_FaultError, KeyError) as error:
            missing = f"line {_line(root)}: the file has no people"
            self.faults.append(missing if isinstance(error, KeyError) else str(error))
            return
        for person_id, node in people.items():
            try:
                yield self._person(person_id, node)
            except _FaultError as error:
                self.faults.append(str(error))

    def _person(self, person_id: str, node: yaml.Node) -> Person:
        if not person_id.isprintable() or not 0 < len(person_id) <= _MAX_CHARACTERS:
            limit = f"1 to {_MAX_CHARACTERS} printable characters"
            raise _FaultError(node, f"the key of a person must have {limit}")
        fields = _mapping(node, f"person {person_id!r}", ["name", "team", "ids"])
        return Person(
            person_id=person_id,
            name=_text(fields["name"], "name") if "name" in fields else person_id,
            teams=tuple(self._all(fields.get("team"), "team", _membership, person_id)),
            ids=tuple(self._all(fields.get("ids"), "ids", _identifier, person_id)),
        )

    def _all(
        self,
        node: yaml.Node | None,
        name: str,
        read: Callable[[yaml.Node], Entry],
        person_id: str,
    ) -> Iterator[Entry]:
        """Yield the entries of a list, and keep their lines; a text is a list of one."""
        if node is None:
            return
        is_text = name == "team" and isinstance(node, yaml.ScalarNode)
        for item in [node] if is_text else _sequence(node, name):
            try:
                entry = read(item)
            except _FaultError as error:
                self.faults.append(str(error))
                continue
            self.located.append(_Located(entry, _line(item), person_id))
            yield entry


def _membership(node: yaml.Node) -> Membership:
    if isinstance(node, yaml.ScalarNode):
        return Membership(team=_text(node, "team"))
    fields = _mapping(node, "an entry of team", ["team", "from", "to"])
    if "team" not in fields:
        raise _FaultError(node, "an entry of team has no team")
    first, last = _dates(fields)
    return Membership(team=_text(fields["team"], "team"), first=first, last=last)


def _identifier(node: yaml.Node) -> Identifier:
    fields = _mapping(node, "an id", [*ID_KINDS, "agent", "from", "to"])
    kinds: list[IdKind] = [kind for kind in ID_KINDS if kind in fields]
    if len(kinds) != 1:
        raise _FaultError(node, f"an entry of ids must have one of {', '.join(ID_KINDS)}")
    agent = _text(fields["agent"], "agent") if "agent" in fields else None
    if agent is not None and agent not in SOURCE_CLIS:
        raise _FaultError(
            fields["agent"], f"agent {agent!r} is not one of {', '.join(SOURCE_CLIS)}"
        )
    first, last = _dates(fields)
    (kind,) = kinds
    value = _text(fields[kind], kind)
    return Identifier(kind=kind, value=value, agent=agent, first=first, last=last)


def _dates(fields: dict[str, yaml.Node]) -> tuple[date | None, date | None]:
    first, last = (_date(fields[name], name) if name in fields else None for name in ("from", "to"))
    if first is not None and last is not None and last < first:
        raise _FaultError(fields["from"], f"from {first} is after to {last}")
    return first, last


def _date(node: yaml.Node, name: str) -> date:
    written = _text(node, name)
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise _FaultError(node, f"{name} {written!r} is not a date such as 2026-11-21") from None


def _mapping(
    node: yaml.Node, what: str, allowed: Sequence[str] | None = None
) -> dict[str, yaml.Node]:
    """Return the values of a mapping by key; refuse repeated and unknown keys."""
    if not isinstance(node, yaml.MappingNode):
        raise _FaultError(node, f"{what} is not a mapping (key: value)")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _text(key, f"a key of {what}")
        if name in found:
            raise _FaultError(key, f"{what} has {name!r} more than once")
        if allowed is not None and name not in allowed:
            raise _FaultError(key, f"{what} has {name!r}, which is not one of {', '.join(allowed)}")
        found[name] = value
    return found


def _sequence(node: yaml.Node, what: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _FaultError(node, f"{what} is not a list (- item)")
    return list(node.value)


def _text(node: yaml.Node, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL or not node.value.strip():
        raise _FaultError(node, f"{what} is not a text")
    return str(node.value)


def _conflicts(located: Sequence[_Located]) -> Iterator[str]:
    """Yield each pair of entries that a session could have both, or a person at one time."""
    groups: dict[object, list[_Located]] = {}
    for entry in located:
        what = entry.what
        key = what.key if isinstance(what, Identifier) else entry.person_id
        groups.setdefault(key, []).append(entry)
    for group in groups.values():
        for one, other in combinations(group, 2):
            if reason := _conflict(one, other):
                yield f"line {other.line}: {reason}"


def _conflict(one: _Located, other: _Located) -> str | None:
    first, second = one.what, other.what
    if isinstance(first, Identifier) and isinstance(second, Identifier):
        if not first.conflicts_with(second):
            return None
        whose = (
            f"{one.person_id!r} twice"
            if one.person_id == other.person_id
            else f"{other.person_id!r} and of {one.person_id!r}"
        )
        return f"{second.kind} {second.value!r} is of {whose} at one time (see line {one.line})"
    if not first.overlaps(second):
        return None
    return f"{one.person_id!r} is in two teams at one time (see line {one.line})"


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
