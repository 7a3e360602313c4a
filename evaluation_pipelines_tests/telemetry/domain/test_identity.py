"""Who and where, as records and their resources say it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.attributes import text_or_url, without_credentials
from evaluation_pipelines_tests.telemetry.domain.reading import read_one
from evaluation_pipelines_tests.world import claude, line

HASH, OTHER = "0f" * 32, "1e" * 32


def who(record: dict[str, str], resource: dict[str, str]) -> tuple[str | None, ...]:
    """User id, e-mail and account of a prompt; ``__`` in a key stands for a dot."""
    event = read_one(line(claude("user_prompt", 0, **record), **resource))
    return event["user_id"], event["user_email"], event["account_id"]


@pytest.mark.parametrize(
    ("record", "resource", "expected"),
    [
        ({"user__id": HASH}, {}, (None, None, HASH)),
        ({"user__id": "ada"}, {}, ("ada", None, None)),
        # OTEL_RESOURCE_ATTRIBUTES say who that is, whatever the agent makes up.
        ({"user__id": HASH}, {"user__id": "ada"}, ("ada", None, HASH)),
        ({"user__id": HASH}, {"enduser__id": "ada"}, ("ada", None, HASH)),
        ({"user__id": HASH}, {"user__email": "ada@x"}, (None, "ada@x", HASH)),
        ({"user__id": HASH, "enduser__id": "ada"}, {}, ("ada", None, HASH)),
        ({"user__id": "eve", "enduser__id": "ada"}, {}, ("ada", None, None)),
        # The record wins over its resource.
        ({"user__id": "eve"}, {"user__id": "ada"}, ("eve", None, None)),
        ({"user__email": "eve@x"}, {"user__email": "ada@x"}, (None, "eve@x", None)),
        ({}, {"user__id": HASH}, (None, None, HASH)),
        ({"user__id": HASH}, {"user__id": OTHER}, (None, None, HASH)),
        # A hash in capitals, or too long, is none of an agent.
        ({"user__id": HASH.upper()}, {}, (HASH.upper(), None, None)),
        ({"user__id": f"{HASH}0"}, {}, (f"{HASH}0", None, None)),
        ({}, {}, (None, None, None)),
    ],
)
def test_a_given_user_id_is_kept_apart_from_an_anonymous_hash(
    record: dict[str, str], resource: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    assert who(record, resource) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"vcs__repository__name": "shop"}, ("shop", None, None)),
        (
            {"vcs__repository__url__full": "https://a:b@x/shop.git"},
            ("https://x/shop.git",) + (None,) * 2,
        ),
        ({"repository": "shop", "branch": "main"}, ("shop", "main", None)),
        (
            {"vcs__repository__name": "shop", "repository": "x", "vcs__ref__head__name": "topic"},
            ("shop", "topic", None),
        ),
        ({"deployment__environment": "old"}, (None, None, "old")),
        (
            {"deployment__environment": "old", "deployment__environment__name": "new"},
            (None, None, "new"),
        ),
    ],
)
@pytest.mark.parametrize("place", ["record", "resource"])
def test_where_a_session_ran(
    sent: dict[str, str], expected: tuple[str | None, ...], place: str
) -> None:
    record, resource = (sent, {}) if place == "record" else ({}, sent)
    event = read_one(line(claude("user_prompt", 0, **record), **resource))
    assert (event["repository"], event["branch"], event["environment"]) == expected


@pytest.mark.parametrize("place", ["record", "resource"])
def test_credentials_of_a_repository_are_in_no_column(place: str) -> None:
    sent = {
        "vcs__repository__name": "shop",
        "vcs__repository__url__full": "https://ci:secret@x/shop?token=secret",
        "repository": "ci:secret@x:shop",
    }
    record, resource = (sent, {}) if place == "record" else ({}, sent)
    event = read_one(line(claude("user_prompt", 0, **record), **resource))
    assert "secret" not in json.dumps(event, default=str)
    rest = json.loads(event["attributes"])
    assert rest["vcs.repository.url.full"] == "https://x/shop"
    assert rest["repository"] == "x:shop"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("shop", "shop"),
        ("orchard/shop", "orchard/shop"),
        ("@orchard/shop", "@orchard/shop"),
        ("https://git.example/shop.git", "https://git.example/shop.git"),
        ("https://token@git.example/shop", "https://git.example/shop"),
        ("https://ci:token@git.example:8443/shop", "https://git.example:8443/shop"),
        ("https://git.example/shop?private_token=x#y", "https://git.example/shop"),
        ("git@git.example:orchard/shop.git", "git.example:orchard/shop.git"),
        ("ssh://git@git.example:22/shop", "ssh://git.example:22/shop"),
        ("ci:token@git.example/shop", "git.example/shop"),
        ("git.example/shop?token=x", "git.example/shop"),
        ("https://[::1]:80/shop", "https://[::1]:80/shop"),
        # Not escaped as it should be.
        ("https://ci:to@ken@git.example/shop", "https://git.example/shop"),
        ("https://ci:to/ken@git.example/shop", "https://git.example/shop"),
        ("https://ci:to?ken@git.example/shop", "https://git.example/shop"),
        ("https://ci:to#ken@git.example/shop", "https://git.example/shop"),
        ("https://ci:token", "https://ci"),
        ("https://ci:tok/en", "https://ci/en"),
        ("", None),
        (None, None),
        (7, "7"),
    ],
)
def test_credentials_are_removed_from_urls(sent: object, expected: str | None) -> None:
    assert without_credentials(sent) == expected


@given(st.text(alphabet="ab:/@?#.%[]", max_size=20), st.sampled_from(["https://", "ssh://"]))
def test_what_stands_before_a_host_never_stays(password: str, scheme: str) -> None:
    sent = f"{scheme}user:SECRET{password}@git.example/shop"
    assert "SECRET" not in str(without_credentials(sent))
    assert "SECRET" not in str(text_or_url(sent))


def test_an_email_is_no_url() -> None:
    assert text_or_url("ada@orchard.example") == "ada@orchard.example"
