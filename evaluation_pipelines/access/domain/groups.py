"""Groups of people whom a proxy has let in: what a group may at most."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation_pipelines.access.domain.caller import Caller, Role
from evaluation_pipelines.errors import UserError


class GroupError(UserError, ValueError):
    """The meaning of a group cannot be read."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The role of a group, and its organization; ``None`` for that of the proxy's key."""

    group: str
    role: Role
    organization: str | None


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Return grants, written ``group=role`` or ``group=role@organization``.

    Raises:
        GroupError: a text has another form, or there is no such role.
    """
    return tuple(map(_parse, texts))


def _parse(text: str) -> Grant:
    group, _, meaning = text.partition("=")
    role, at, organization = meaning.partition("@")
    if not group or role not in set(Role) or (at and not organization):
        raise GroupError(
            f"{text!r} in EVAL_FORWARDED_GROUPS is not GROUP=ROLE or GROUP=ROLE@ORGANIZATION; "
            f"roles are {', '.join(Role)}"
        )
    return Grant(group, Role(role), organization or None)


def narrowed(caller: Caller, grants: Sequence[Grant], groups: Collection[str]) -> Caller | None:
    """Return a caller as the first grant of one of its groups allows, ``None`` without any.

    A grant takes away from the role and organizations of the caller's key, and adds nothing.
    """
    grant = next((each for each in grants if each.group in groups), None)
    if grant is None or not caller.role.includes(grant.role):
        return None
    if grant.organization is None:
        return replace(caller, role=grant.role)
    if not caller.sees(grant.organization):
        return None
    return replace(caller, role=grant.role, organization=grant.organization)
