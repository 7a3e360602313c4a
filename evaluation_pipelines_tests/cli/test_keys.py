"""``keys``, and addresses that ``serve`` refuses."""

import json
import socket

import pytest

from evaluation_pipelines_tests.program import Program


def create(program: Program, name: str, *options: str) -> str:
    ran = program("keys", "create", name, *options)
    assert (ran.code, "only time" in ran.err) == (0, True)
    return ran.out.strip()


def test_a_key_is_shown_once_and_listed_without_its_secret(program: Program) -> None:
    text = create(program, "ada", "--role", "reader", "--organization", "acme")
    create(program, "root", "--role", "operator", "--all-organizations", "--expires", "2999-01-01")

    assert text.startswith("ep_")
    assert len(text) == 59
    ran = program("keys", "list")
    assert [row[:4] for row in ran.table()] == [
        ["ada", "reader", "acme", "valid"],
        ["root", "operator", "all", "valid"],
    ]
    assert text.split("_", 2)[2] not in ran.out
    (ada, root) = json.loads(program("keys", "list", "--format", "json").out)["items"]
    assert (ada["organization"], ada["expires_at"]) == ("acme", None)
    assert (root["organization"], root["expires_at"]) == (None, "2999-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--role", "reader"), "either --organization or"),
        (("--role", "reader", "--organization", "a", "--all-organizations"), "either"),
        (("--role", "admin", "--all-organizations"), "admin"),
        (("--role", "reader", "--all-organizations", "--expires", "2020-01-01"), "future"),
    ],
)
def test_a_key_needs_a_role_and_a_choice_of_organizations(
    program: Program, options: tuple[str, ...], fault: str
) -> None:
    ran = program("keys", "create", "ada", *options)
    assert ran.code == 2
    assert fault in ran.err


def test_without_keys_no_address_of_the_network_is_listened_on(program: Program) -> None:
    ran = program("serve", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert ran.code == 1
    assert "keys create admin --role operator --all-organizations" in ran.err


def test_a_port_in_use_is_an_error_that_names_it(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = program("serve", "--port", str(port))
    assert ran.code == 1
    assert f"error: Cannot listen on 127.0.0.1:{port}: Address already in use" in ran.err
