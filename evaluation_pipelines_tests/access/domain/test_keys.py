"""Keys and groups: which text is accepted, what roles may do, what a grant takes away."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines.access.domain.keys import (
    AccessKey,
    Caller,
    GroupError,
    KeyNameError,
    Role,
    check_key,
    find_key,
    key_text,
    narrowed,
    parse_grants,
    secret_hash,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)
# 32 bytes of zeros are 43 letters A in base64 without its padding.
TEXT = "ep_0123456789ab_" + "A" * 43
KEY = AccessKey("0123456789ab", "ada", "acme", Role.READER, secret_hash(TEXT), NOW)


def test_a_key_is_its_id_and_its_secret_in_base64() -> None:
    assert key_text("0123456789ab", bytes(32)) == TEXT


def test_what_is_kept_is_a_sha256_of_the_text() -> None:
    assert secret_hash(TEXT) == hashlib.sha256(TEXT.encode()).hexdigest()


def test_the_right_text_is_the_key() -> None:
    assert find_key(TEXT, {KEY.key_id: KEY}, NOW) == KEY
    assert KEY.caller == Caller("ada", "acme", Role.READER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1] + "B",
        TEXT[:-1],
        TEXT + "A",
        TEXT + "\n",
        TEXT.upper(),
        TEXT.replace("0123", "0124"),
        "ep_0123456789ab_" + "é" * 43,
    ],
)
def test_any_other_text_is_no_key(text: str) -> None:
    assert find_key(text, {KEY.key_id: KEY}, NOW) is None


@pytest.mark.parametrize(("seconds", "is_valid"), [(-1, True), (0, False), (1, False)])
def test_a_key_is_refused_from_the_moment_it_expires(seconds: int, is_valid: bool) -> None:
    key = AccessKey(*_columns(), expires_at=NOW)

    found = find_key(TEXT, {key.key_id: key}, NOW + timedelta(seconds=seconds))
    assert (found is not None) == is_valid


def test_a_revoked_key_is_refused() -> None:
    key = AccessKey(*_columns(), revoked_at=NOW)
    assert find_key(TEXT, {key.key_id: key}, NOW) is None


def _columns() -> tuple[str, str, str | None, Role, str, datetime]:
    return (KEY.key_id, KEY.name, KEY.organization, KEY.role, KEY.secret_sha256, KEY.created_at)


@pytest.mark.parametrize(
    ("role", "included"),
    [
        (Role.INGEST, {Role.INGEST}),
        (Role.READER, {Role.READER}),
        (Role.REVIEWER, {Role.READER, Role.REVIEWER}),
        (Role.OPERATOR, {Role.INGEST, Role.READER, Role.REVIEWER, Role.OPERATOR}),
    ],
)
def test_what_a_role_includes(role: Role, included: set[Role]) -> None:
    assert {lesser for lesser in Role if role.includes(lesser)} == included


def test_a_caller_sees_its_organization_alone() -> None:
    assert Caller("a", None, Role.READER).sees("acme")
    assert Caller("a", None, Role.READER).sees(None)
    assert Caller("a", "acme", Role.READER).sees("acme")
    assert not Caller("a", "acme", Role.READER).sees("Acme")
    assert not Caller("a", "acme", Role.READER).sees(None)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\n", "a" * 65, "é"])
def test_a_key_cannot_have_a_name_that_would_look_odd_in_a_log(name: str) -> None:
    with pytest.raises(KeyNameError, match="name of a key"):
        check_key(name, None)


@pytest.mark.parametrize("organization", ["", "  ", "a\nb", "é" * 41])
def test_a_key_cannot_be_of_such_an_organization(organization: str) -> None:
    with pytest.raises(KeyNameError, match="organization"):
        check_key("ada", organization)


def test_names_that_a_key_can_have() -> None:
    check_key("ada@example.com", "Ärzte / Süd")
    check_key("a" * 64, None)


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
