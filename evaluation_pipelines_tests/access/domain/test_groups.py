"""Groups of people whom a proxy lets in: a grant takes away from the proxy's key."""

import pytest

from evaluation_pipelines.access.domain.keys import Caller, GroupError, Role, narrowed, parse_grants

GRANTS = parse_grants(["admins=operator", "devs=reader@acme", "staff=reviewer"])
PROXY = Caller("proxy", None, Role.OPERATOR)


@pytest.mark.parametrize(
    ("caller", "groups", "found"),
    [
        (PROXY, {"staff", "admins"}, (Role.OPERATOR, None)),  # the first grant, not the first group
        (PROXY, {"devs", "staff"}, (Role.READER, "acme")),
        (PROXY, {"staff"}, (Role.REVIEWER, None)),
        (PROXY, {"other"}, None),
        (PROXY, set(), None),
        # Nothing is added to what the key may.
        (Caller("proxy", None, Role.REVIEWER), {"admins"}, None),
        (Caller("proxy", "beta", Role.OPERATOR), {"devs"}, None),
        (Caller("proxy", "beta", Role.OPERATOR), {"staff"}, (Role.REVIEWER, "beta")),
        (Caller("proxy", "acme", Role.OPERATOR), {"devs"}, (Role.READER, "acme")),
    ],
)
def test_a_grant_takes_away_and_adds_nothing(
    caller: Caller, groups: set[str], found: tuple[Role, str | None] | None
) -> None:
    result = narrowed(caller, GRANTS, groups)
    assert (None if result is None else (result.role, result.organization)) == found
    assert result is None or result.name == "proxy"


@pytest.mark.parametrize("text", ["admins", "=reader", "a=boss", "a=reader@", "a=Reader"])
def test_what_is_no_grant_is_refused(text: str) -> None:
    with pytest.raises(GroupError, match="GROUP=ROLE"):
        parse_grants([text])
