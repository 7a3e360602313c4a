"""Redaction: secrets are replaced, other text is kept, and time is linear."""

import random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, redact
from evaluation_pipelines.judging.domain.prompt.secrets.checks import is_random
from evaluation_pipelines.judging.domain.prompt.secrets.forms import FORMS
from evaluation_pipelines.judging.domain.prompt.secrets.pattern import SecretPattern
from evaluation_pipelines.judging.domain.prompt.secrets.personal import (
    NUMBERS,
    PERSONAL,
    PERSONAL_KINDS,
)
from evaluation_pipelines.judging.domain.prompt.secrets.places import PLACES, SURROUNDINGS, WORDS
from evaluation_pipelines.judging.domain.prompt.secrets.sentences import SENTENCES
from evaluation_pipelines.settings.judging import PersonalData
from evaluation_pipelines_tests.judging.domain.redaction_figures import (
    SEED,
    caught_by_group,
    caught_by_kind,
    harmless_text,
    lines_of_code_and_logs,
)
from evaluation_pipelines_tests.judging.domain.secrets_corpus import GROUPS, expand, planted

KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nq83vEXAMPLEBODY+/w==\n"


def test_a_secret_is_replaced_by_its_kind_and_counted() -> None:
    key = "sk-ant-" + "api03-" + "aB3_" * 20

    assert redact(f"use {key}, twice: {key}.", personal=()) == Redacted(
        "use [redacted:anthropic-key], twice: [redacted:anthropic-key].", {"anthropic-key": 2}
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DB_PASSWORD=hunterhunter", "DB_PASSWORD=[redacted:password]"),
        ("DB_PASSWORD=Kestrel!x", "DB_PASSWORD=[redacted:secret]"),
        ("postgres://u:p4ss@w0rd@db/x", "postgres://u:[redacted:url-password]@db/x"),
        ('{"password": "a\\"b c1"}', '{"password": "[redacted:password]"}'),
        ('{"password": "a\\"b1"}', '{"password": "[redacted:password]"}'),
        ("Cookie: theme=dark; sid=abc123", "Cookie: [redacted:cookie]"),
        ("redis-cli -h cache -a hunter ping", "redis-cli -h cache -a [redacted:password] ping"),
        ('{"password": "my long pass phrase 12"}', '{"password": "[redacted:password]"}'),
        ('password = "Tr0ub4dor & 3 xK9"', 'password = "[redacted:password]"'),
        ('passphrase: "violet tiger 93 lamp"', 'passphrase: "[redacted:password]"'),
        ('password: "Correct Horse Battery"', 'password: "[redacted:password]"'),
        ('password = "a\\"b secret1"', 'password = "[redacted:password]"'),
        ("ssh-keygen -N 'maple otter' -f k", "ssh-keygen -N '[redacted:password]' -f k"),
        ('ssh-keygen -N "don\'t go 4" -f k', 'ssh-keygen -N "[redacted:password]" -f k'),
        ("sshpass -p 'hunter2 ssh host", "sshpass -p '[redacted:password] ssh host"),
        ("passphrase: 'maple otter winter'", "passphrase: '[redacted:password]'"),
        ('{"password": "it\\u0027s1"}', '{"password": "[redacted:password]"}'),
        ('\\"token\\": \\"abc123\\"', '\\"token\\": \\"[redacted:secret]\\"'),
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
    assert redact(text, personal=()).text == left


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
        'password: "Enter your password 2 times"',
        "password: 'Minimum 8 characters'",
        '"password": "Wrong user name"',
        '"pwd": "/home/ann/my shop 2"',
        "password = '%s of 2 users' % name",
        "getpass('password: ') + ' foo 2 '",
        "ssh-keygen -N '' -f k",
        'print("sshpass -p ", x1, "foo")',
        '--token "the token of your account"',
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
    assert redact(text, personal=()) == Redacted(text, {})


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
    assert redact(f"1: {key}, 2.", personal=()) == Redacted(
        "1: [redacted:private-key], 2.", {"private-key": 1}
    )


def test_a_private_key_without_its_beginning_is_replaced() -> None:
    end = "-----END PRIVATE KEY-----"

    assert redact(f"a: {KEY_BODY}{end}, b: {end}", personal=()) == Redacted(
        "a:[redacted:private-key], b:[redacted:private-key]", {"private-key": 2}
    )


def test_email_addresses_are_replaced_on_request() -> None:
    text = "Co-Authored-By: Ann <ann.b+c@mail.example.org>, see git@github.com:team/shop"

    assert redact(text, personal=()).text == text
    assert redact(text, personal=["email"]) == Redacted(
        "Co-Authored-By: Ann <[redacted:email]>, see git@github.com:team/shop", {"email": 1}
    )


@pytest.mark.parametrize(
    ("kind", "text", "left"),
    [
        # 4111...1: 4+1*15 doubled at every second place: 8+2*7+1*8 = 30, a multiple of 10
        ("card", "paid with 4111 1111 1111 1111.", "paid with [redacted:card]."),
        ("card", "card=4111111111111112", "card=4111111111111112"),  # the Luhn sum is 31
        ("card", "amex 378282246310005", "amex [redacted:card]"),
        ("card", "id 1732000000000000000", "id 1732000000000000000"),  # nanoseconds
        ("iban", "to DE89 3704 0044 0532 0130 00 today", "to [redacted:iban] today"),
        ("iban", "to DE88370400440532013000", "to DE88370400440532013000"),
        ("ssn", "SSN 123-45-6789", "SSN [redacted:ssn]"),
        ("ssn", "part 000-45-6789", "part 000-45-6789"),
        (
            "phone",
            "call +49 30 901820 or (212) 555-0100",
            "call [redacted:phone] or [redacted:phone]",
        ),
        ("phone", "Decimal('+35236450.6')", "Decimal('+35236450.6')"),
        ("phone", "+1234 -5678 lines", "+1234 -5678 lines"),
        ("ip", "from 203.0.113.7:443", "from [redacted:ip]:443"),
        ("ip", "2001:db8::8a2e:370:7334 up", "[redacted:ip] up"),
        ("ip", "127.0.0.1 and 12:30:59 and std::vec", "127.0.0.1 and 12:30:59 and std::vec"),
        ("home", "/home/ann/shop/a.py", "/home/[redacted:home]/shop/a.py"),
        ("home", "C:\\Users\\ann\\shop", "C:\\Users\\[redacted:home]\\shop"),
        ("home", "/home/runner/work", "/home/runner/work"),
    ],
)
def test_personal_data_is_replaced_by_setting(kind: str, text: str, left: str) -> None:
    assert redact(text, personal=()) == Redacted(text, {})
    assert redact(text, personal=[kind]).text == left


def test_the_setting_names_every_kind_of_personal_data() -> None:
    assert {*get_args(PersonalData)} == {*PERSONAL_KINDS}


def test_redaction_is_idempotent() -> None:
    text = "\n".join(each.text for each in planted(SEED, 2))

    once = redact(text, personal=("email",))

    assert redact(once.text, personal=("email",)) == Redacted(once.text, {})
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


@pytest.mark.parametrize("group", GROUPS)
def test_at_most_three_of_a_hundred_secrets_remain(group: str) -> None:
    kinds = caught_by_kind()[group]

    assert caught_by_group()[group] >= 0.97
    assert len(kinds) >= {"first": 144, "more": 100}[group]


EVERY_ROW = (*FORMS, *SENTENCES, *PLACES, *SURROUNDINGS, *WORDS, *PERSONAL, *NUMBERS)


@pytest.mark.parametrize("row", EVERY_ROW, ids=lambda row: f"{row.kind}: {row.example[:40]}")
def test_every_pattern_finds_its_example(row: SecretPattern) -> None:
    rng = random.Random(SEED)  # noqa: S311 - drawn anew in the same way
    texts = [expand(row.example, rng) for _ in range(5)]

    found = [redact(text, personal=PERSONAL_KINDS).counts for text in texts]

    # A general pattern may be served by a specific one first.
    assert all(found)
    assert row.kind in {*found[0]} or row.kind in {"secret", "key", "random-text", "password"}


def test_few_lines_of_code_and_logs_are_changed() -> None:
    lines = lines_of_code_and_logs()
    whole = redact("\n".join(lines), personal=PERSONAL_KINDS[1:]).text.split("\n")

    changed = [line for line, left in zip(lines, whole, strict=True) if line != left]
    found = {line for line in {*lines} if redact(line, personal=()).counts}
    alone = [line for line in lines if line in found]

    assert len(lines) >= 2000
    assert len(changed) <= 0.01 * len(lines), changed
    assert len(alone) <= 0.01 * len(lines), alone


def test_recorded_sessions_and_sources_lose_only_planted_secrets() -> None:
    text = harmless_text()

    # One GitHub token, which was planted in a capture.
    assert redact(text, personal=()).counts == {"github-token": 1}
    assert len(text) > 600_000


HOSTILE = [
    "sk-", "eyJ", "eyJabcdefgh.", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
    "://", "://a:", "password", 'password="', "password: '", "a@", "a@b.", "authorization: ",
    "bearer ", "curl -u a:", "mysql -p", "ghp_", "key-", "ab_", ":AA12", "Aa1-", "\\", " ",
    "password is ", "A" * 64 + "\n", "sig=", "--token ", "private key", "4111 ", "+1 ", "DE89",
    "1:", "cookie: a=", "<input ", "seed phrase: ", "word ", "echo ", "redis-cli ", "?a", "\\n",
    "kind: secret\n a: ", "user a\n", "/home/", "1.1.", "apikey", "=", "== ", "auth ", "**",
    "ssh-keygen -N 'a ", 'password: "a\\"b ',
    "密码是a ", "expect password ", "expect\n", "key[1, ", "1, ", "passphrase a ",
    "passphrase is a ", "token: abc ", "recovery codes\na1b2-c3d4", "priv:00:",
    "Private-Lines: 1\nabcd", "a:5432:b:c:",
]  # fmt: skip


@pytest.mark.parametrize(
    "length", [pytest.param(15_000), pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_redaction_takes_linear_time(length: int) -> None:
    # With quadratic growth 100 kB of each would take minutes, and 15 kB still seconds.
    for piece in HOSTILE:
        redact(piece * (length // len(piece)), personal=PERSONAL_KINDS)


@given(st.text() | st.lists(st.sampled_from(HOSTILE), max_size=40).map("".join))
def test_any_text_is_accepted(text: str) -> None:
    assert isinstance(redact(text, personal=("email",)).text, str)
