"""Redaction: secrets are replaced, other text is kept, and time is linear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, is_random, redact
from evaluation_pipelines_tests.judging.domain.redaction_figures import (
    EACH,
    SEED,
    caught_by_group,
    caught_by_kind,
    harmless_text,
)
from evaluation_pipelines_tests.judging.domain.secrets_corpus import planted

KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nq83vEXAMPLEBODY+/w==\n"


def test_a_secret_is_replaced_by_its_kind_and_counted() -> None:
    key = "sk-ant-" + "api03-" + "aB3_" * 20

    assert redact(f"use {key}, twice: {key}.", emails=False) == Redacted(
        "use [redacted:anthropic-key], twice: [redacted:anthropic-key].", {"anthropic-key": 2}
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DB_PASSWORD=hunterhunter", "DB_PASSWORD=[redacted:password]"),
        ('{"password": "it\\u0027s1"}', '{"password": "[redacted:password]"}'),
        ('\\"token\\": \\"abc123\\"', '\\"token\\": \\"[redacted:password]\\"'),
        ("postgres://u:p4ss@db/x", "postgres://u:[redacted:url-password]@db/x"),
        (
            "curl -H 'Authorization: Bearer abc.def-123456789012'",
            "curl -H 'Authorization: Bearer [redacted:authorization]'",
        ),
        ("mysql -u root -phunter2 shop", "mysql -u root -p[redacted:password] shop"),
        ("sshpass -p hunter2 ssh host", "sshpass -p [redacted:password] ssh host"),
        ("curl -u bot:hunter2 http://x", "curl -u bot:[redacted:password] http://x"),
        ("the password is hunter2, I think", "the password is [redacted:password] I think"),
        (
            "https://hooks.slack.com/services/" + "T0000000" + "1/B00000001/aaaaaaaaaaaaaaaa",
            "https://hooks.slack.com/services/[redacted:slack-webhook]",
        ),
    ],
)
def test_only_the_secret_of_a_line_is_replaced(text: str, left: str) -> None:
    assert redact(text, emails=False).text == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password=",
        "password: str",
        "password = settings.password",
        "token=args.token",
        "api_key=os.environ['KEY']",
        "PASSWORD=$SECRET_FROM_ENV",
        "PASSWORD=${DB_PASSWORD}",
        'password: "<your password>"',
        '"password": "********"',
        '"token": "the token is missing"',
        "Original token count: 13",
        '"totalTokenCount": 7120',
        "max_tokens=4096",
        "tokens: 100000",
        "token: 12345678",  # a number of tokens is not a secret
        "credentials: include",
        "passwords are hashed",
        "Bearer tokens are checked",
        "Authorization: Bearer <token>",
        "https://user@example.com/path",
        "http://localhost:8080/@scope/package",
        "sk-learn-contrib-and-its-friends",
        "--password $PASSWORD",
        "git@github.com:team/shop.git",
        "0123456789abcdef0123456789abcdef01234567",  # a commit
        "2ee7d226-95ef-46ad-b170-505df4198ac0",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "test_that_a_very_long_name_of_a_test_with_2_numbers_3_stays",
        "AbstractSingletonProxyFactoryBean2ConfigurerAdapter",
        "-----BEGIN PUBLIC KEY-----\nMFwwDQYJ\n-----END PUBLIC KEY-----",
    ],
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert redact(text, emails=False) == Redacted(text, {})


@pytest.mark.parametrize(
    "key",
    [
        f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}-----END PRIVATE KEY-----",
        (
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0\n\n"
            f"{KEY_BODY}-----END RSA PRIVATE KEY-----"
        ),
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY_BODY}",  # truncated
        f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}-----END PRIVATE KEY-----".replace("\n", "\\n"),
    ],
)
def test_a_private_key_is_replaced_completely(key: str) -> None:
    assert redact(f"1: {key}, 2.", emails=False) == Redacted(
        "1: [redacted:private-key], 2.", {"private-key": 1}
    )


def test_a_private_key_without_its_beginning_is_replaced() -> None:
    end = "-----END PRIVATE KEY-----"

    assert redact(f"a: {KEY_BODY}{end}, b: {end}", emails=False) == Redacted(
        "a:[redacted:private-key], b:[redacted:private-key]", {"private-key": 2}
    )


def test_email_addresses_are_replaced_on_request() -> None:
    text = "Co-Authored-By: Ann <ann.b+c@mail.example.org>, see git@github.com:team/shop"

    assert redact(text, emails=False).text == text
    assert redact(text, emails=True) == Redacted(
        "Co-Authored-By: Ann <[redacted:email]>, see git@github.com:team/shop", {"email": 1}
    )


def test_redaction_is_idempotent() -> None:
    text = "\n".join(each.text for each in planted(SEED, 2))

    once = redact(text, emails=True)

    assert redact(once.text, emails=True) == Redacted(once.text, {})
    assert sum(once.counts.values()) > 100


@pytest.mark.parametrize(
    ("word", "random"),
    [
        ("", False),
        ("x9Kq2LmZ7pWv4RtY8nBc3HdF", True),
        ("this_is_a_name_of_many_words_and_2_numbers_9", False),
        ("2ee7d226-95ef-46ad-b170-505df4198ac0", False),
        ("AbstractFactory2Bean2ConfigurerAdapter", False),
    ],
)
def test_random_words_are_recognized_by_their_changes(word: str, *, random: bool) -> None:
    assert is_random(word) is random


def test_every_secret_with_a_specific_rule_is_caught() -> None:
    assert set(caught_by_kind()["named"].values()) == {1.0}


def test_most_of_the_others_are_caught_too() -> None:
    shares = caught_by_group()

    assert shares["placed"] >= 0.97
    assert shares["unnamed"] >= 0.85
    assert len(list(planted(SEED, EACH))) >= 2000


def test_an_uncaught_secret_is_measured() -> None:
    kinds = caught_by_kind()

    # Eight lower-case letters after `password: ` cannot be distinguished from a variable.
    assert kinds["placed"]["password of letters alone"] == 0.75


def test_recorded_sessions_and_sources_lose_only_planted_secrets() -> None:
    text = harmless_text()

    # One GitHub token, which was planted in a capture.
    assert redact(text, emails=False).counts == {"github-token": 1}
    assert len(text) > 600_000


HOSTILE = [
    "sk-", "eyJ", "eyJabcdefgh.", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
    "://", "://a:", "password", 'password="', "password: '", "a@", "a@b.", "authorization: ",
    "bearer ", "curl -u a:", "mysql -p", "ghp_", "key-", "ab_", ":AA12", "Aa1-", "\\", " ",
    "password is ", "A" * 64 + "\n", "sig=", "--token ", "private key",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_redaction_takes_linear_time(piece: str) -> None:
    # With quadratic growth 300 kB would take minutes.
    redact(piece * (300_000 // len(piece)), emails=True)


@given(st.text() | st.lists(st.sampled_from(HOSTILE), max_size=40).map("".join))
def test_any_text_is_accepted(text: str) -> None:
    assert isinstance(redact(text, emails=True).text, str)
