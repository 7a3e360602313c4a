# ruff: noqa: RUF001 - signs of other scripts
"""Redaction: secrets are replaced, other text is kept, JSON stays JSON, and time is linear."""

import json
import random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt import redaction
from evaluation_pipelines.judging.domain.prompt.redaction import (
    Redacted,
    SecretPattern,
    compiled,
    is_random,
    personal_kinds,
    redact,
    secret_rows,
)
from evaluation_pipelines.settings.judging import PersonalData
from evaluation_pipelines_tests.judging.domain.redaction_figures import (
    SEED,
    caught_by_group,
    caught_by_kind,
    code_and_log_lines,
    harmless_text,
)
from evaluation_pipelines_tests.judging.domain.secrets_corpus import GROUPS, expand, planted

# ruff: noqa: RUF001 - signs of other scripts


KINDS = personal_kinds()
KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nq83vEXAMPLEBODY+/w==\n"


def test_a_secret_is_replaced_by_its_kind_and_counted() -> None:
    key = "sk-ant-" + "api03-" + "aB3_" * 20

    assert redact(f"use {key}, twice: {key}.", personal=()) == Redacted(
        "use [redacted:anthropic-key], twice: [redacted:anthropic-key].", {"anthropic-key": 2}
    )


def test_capitals_that_are_two_small_letters_move_no_secret() -> None:
    text = "İ app password: qwxz plmk vbtr ghjd"
    assert len(text.lower()) == len(text) + 1

    assert redact(text, personal=()).text == "İ app password: [redacted:secret]"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DB_PASSWORD=Kestrel!x", "DB_PASSWORD=[redacted:secret]"),
        ("postgres://u:p4ss@w0rd@db/x", "postgres://u:[redacted:url-password]@db/x"),
        ('{"password": "a\\"b c1"}', '{"password": "[redacted:password]"}'),
        ('{"password": "a\\"b1"}', '{"password": "[redacted:password]"}'),
        ("Cookie: theme=dark; sid=abc123", "Cookie: [redacted:cookie]"),
        ('{"password": "my long pass phrase 12"}', '{"password": "[redacted:password]"}'),
        ('password = "Tr0ub4dor & 3 xK9"', 'password = "[redacted:password]"'),
        ('passphrase: "violet tiger 93 lamp"', 'passphrase: "[redacted:password]"'),
        ('password: "Correct Horse Battery"', 'password: "[redacted:password]"'),
        ('password = "a\\"b secret1"', 'password = "[redacted:password]"'),
        ("ssh-keygen -N 'maple otter' -f k", "ssh-keygen -N '[redacted:password]' -f k"),
        ('ssh-keygen -N "don\'t go 4" -f k', 'ssh-keygen -N "[redacted:password]" -f k'),
        ("sshpass -p 'hunter2 ssh host", "sshpass -p '[redacted:password] ssh host"),
        ('{"password": "it\\u0027s1"}', '{"password": "[redacted:password]"}'),
        ('\\"token\\": \\"abc123\\"', '\\"token\\": \\"[redacted:secret]\\"'),
        (
            "curl -H 'Authorization: Bearer abc.def-123456789012'",
            "curl -H 'Authorization: Bearer [redacted:authorization]'",
        ),
        ("the password is hunter2, I think", "the password is [redacted:password] I think"),
    ],
)
def test_only_the_secret_of_a_line_is_replaced(text: str, left: str) -> None:
    assert redact(text, personal=()).text == left


W = "Wint3r!Kiosk"
BYTES = "174, 47, 154, 16, 202, 193, 206, 113, 199, 190, 53, 133, 169, 175, 31, 56"
HEX = ", ".join(f"0x{int(part):02x}" for part in BYTES.split(", "))
KEYPAIR = "[" + ",".join(str(n * 83 % 256) for n in range(64)) + "]"
KEY = "AAAAgQCx7fPLmQ2vT8uJpYcRk3wZbN5dHsE1oGiX0aVtKnMqUyWjBr4hSf9lDzCe"

SECRETS = [
    # Lines of .pgpass
    (f"db-1.a.net:5432:shop.live:app.user:{W}", W),
    ("/var/run/postgresql:5432:*:ann@corp:p4ss\\:word", "p4ss\\:word"),
    (f"[fe80::1]:5432:shop:app:{W}", W),
    (f'echo "db:5432:shop:app:{W}" >> ~/.pgpass', W),
    (f"     3\tdb:5432:shop:app:{W}", W),
    # Bodies of PuTTY keys
    (f"Private-Lines: 2\n{KEY}\nAAAAFQCd\nPrivate-MAC: 12ab", KEY),
    (f"Private-Lines: 2\n{KEY}\nAAAAFQCd\nPrivate-MAC: 12ab", "AAAAFQCd"),
    (f"Private-Lines: 1\r\n{KEY}\r\nPrivate-MAC: 12ab", KEY),
    (f'{{"text": "Private-Lines: 1\\r\\n{KEY}\\r\\nPrivate-MAC: 1"}}', KEY),
    # Sentences of other languages
    (f"Mein Kennwort ist: {W}.", W),
    (f"Le mot de passe est {W}", W),
    (f"mot de passe : « {W} »", W),
    (f"La contraseña es {W}", W),
    (f"Contraseña: {W}, usuario: ann", W),
    (f"La clave es '{W}'", W),
    (f"密码是{W}", W),
    (f"数据库密码为：{W}。", W),
    (f"パスワードは{W}です", W),
    (f"パスワード：{W}", W),
    (f"A senha é {W}", W),
    (f"Пароль: {W}", W),
    # Tokens with blanks
    ('"api_key": "a1b2 c3d4 e5f6 g7h8"', "a1b2 c3d4 e5f6 g7h8"),
    ("The token is 9F3A 77B2 C0D1 4E8F.", "9F3A 77B2 C0D1 4E8F"),
    # Scripts that type
    ('expect {\n  "Password:" { send -- "hunterseven\\r" }\n}', "hunterseven"),
    ("child.expect('Password:')\nchild.sendline('hunterseven')", "hunterseven"),
    # Bytes of keys
    (f"let signing_key: [u8; 16] = [{BYTES}];", BYTES),
    (f"const secretKey = Uint8Array.from([{BYTES}]);", BYTES),
    (f"static const unsigned char aes_key[16] = {{ {HEX} }};", HEX),
    (f"key = bytes([\n    {HEX},\n])", HEX),
    (KEYPAIR, KEYPAIR.strip("[]")),
    ("priv:\n    00:a3:1b:2c:3d:4e:5f:60:71:82:93:a4:b5:c6:d7:\n    e8:f9", "00:a3:1b:2c:3d"),
    # Codes
    ("OTP: 482 913", "482 913"),
    ("2FA code 482913, valid for 30 s", "482913"),
    ("Dein Bestätigungscode lautet 482913.", "482913"),
    ("验证码：482913", "482913"),
    ("recovery codes:\n1. a8kd2-9fj3k\n2. pq02x-77dhz", "pq02x-77dhz"),
    # Words after "passphrase"
    ("The passphrase for the key is marble-otter-lantern-seven.", "marble-otter-lantern-seven"),
    ("ssh-add, passphrase correct horse battery staple", "correct horse battery staple"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_in_a_sentence_a_script_or_as_bytes_is_removed(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text, personal=()).text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password=",
        "password = settings.password",
        "token=args.token",
        "api_key=os.environ['KEY']",
        "PASSWORD=$SECRET_FROM_ENV",
        "PASSWORD=${DB_PASSWORD}",
        'password: "<your password>"',
        '"token": "the token is missing"',
        'password: "Enter your password 2 times"',
        "password: 'Minimum 8 characters'",
        '"password": "Wrong user name"',
        '"pwd": "/home/ann/my shop 2"',
        "password = '%s of 2 users' % name",
        "getpass('password: ') + ' foo 2 '",
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
        "sk-learn-contrib-and-its-friends",
        "--password $PASSWORD",
        "0123456789abcdef0123456789abcdef01234567",  # a commit
        "2ee7d226-95ef-46ad-b170-505df4198ac0",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "AbstractSingletonProxyFactoryBean2ConfigurerAdapter",
        "Das Passwort muss geändert werden",
        "Le mot de passe est incorrect",
        "La clave es única en cada tabla",
        "パスワードは必須です",
        "src/app.py:1042:def connect(self, password):",
        "error code 404, exit code 137, pin the version to 1.2.3",
        "auth: 2024-01-01 12:00",
        "Enter passphrase (empty for no passphrase):",
        "the passphrase is required when the key is encrypted",
        "token: this must have been read from the file",
        "keys = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]",
        "expect(password).toBe(expected)",
        "expect sending of the password form to fail",
        "otp = 6 digits",
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
    assert {*get_args(PersonalData)} == {*KINDS}


def test_redaction_is_idempotent() -> None:
    text = "\n".join(secret.text for secret in planted(SEED, 2))

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


ROWS = [(table, row) for table, rows in secret_rows().items() for row in rows]


@pytest.mark.parametrize(
    ("table", "row"), ROWS, ids=[f"{row.kind}: {row.example[:40]}" for _, row in ROWS]
)
def test_every_row_finds_its_example_and_not_its_near_miss(
    table: str, row: SecretPattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = compiled({table: [row]})
    monkeypatch.setattr(redaction, "tables", lambda: alone)
    example, near_miss = (
        expand(text, random.Random(SEED))  # noqa: S311 - drawn anew in the same way
        for text in (row.example, row.near_miss)
    )

    assert redact(example, personal=KINDS).counts == {row.kind: 1}
    assert redact(near_miss, personal=KINDS) == Redacted(near_miss, {})


def test_few_lines_of_code_and_logs_are_changed() -> None:
    lines = code_and_log_lines()
    whole = redact("\n".join(lines), personal=KINDS[1:]).text.split("\n")

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
        redact(piece * (length // len(piece)), personal=KINDS)


@given(st.text() | st.lists(st.sampled_from(HOSTILE), max_size=40).map("".join))
def test_any_text_is_accepted(text: str) -> None:
    assert isinstance(redact(text, personal=("email",)).text, str)


PLANTED = [secret.text for secret in planted(7, 1)]
NUMBERS = [4111111111111111, 378282246310005, 123456789, 2125550100]
NAMES = ["password", "api_key", "ssn", "card", "phone", "text", "auth", "a\nb"]

texts = st.one_of(
    st.sampled_from(PLANTED),
    st.tuples(
        st.sampled_from(["\n", "\t", '"', "\\", "é", "n", "a ", "'"]), st.sampled_from(PLANTED)
    ).map("".join),
    st.text(max_size=8),
)
leaves = st.one_of(texts, st.sampled_from(NUMBERS), st.none(), st.booleans(), st.floats(0, 1))
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)


def shape(document: Any) -> Any:
    """Return lists and names of a document, with its other values replaced."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    return [shape(item) for item in document] if isinstance(document, list) else "value"


@settings(max_examples=150)
@given(documents, st.booleans(), st.sampled_from([None, 1]))
def test_a_document_keeps_its_structure(
    document: Any, ascii_only: bool, indent: int | None
) -> None:
    logged = json.dumps(document, ensure_ascii=ascii_only, indent=indent)

    left = redact(logged, personal=personal_kinds()).text

    assert shape(json.loads(left)) == shape(document)


@pytest.mark.parametrize("seed", range(3))
def test_every_secret_in_every_escape_keeps_a_document_whole(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - drawn anew in the same way
    before = ["\n", "\t", "\r\n", '"', "\\", "\u00e9", "\x1f", "'", "C:\\n"]
    for secret in planted(seed, 1):
        document = {"a": f"x{rng.choice(before)}{secret.text}", "b": [secret.text, 1]}
        nested = {"a": json.dumps(document), "b": [secret.text + rng.choice(before), 1]}

        left = json.loads(redact(json.dumps(nested), personal=personal_kinds()).text)

        assert shape(left) == shape(nested), secret.kind


@pytest.mark.parametrize(
    ("logged", "left"),
    [
        # The secret begins after the escape, whose letter stays.
        ('"log\\nsk-ant-' + "api03-" + "aB3_" * 9 + '"', '"log\\n[redacted:anthropic-key]"'),
        ('"\\nx9Kq2LmZ7pWv4RtY8nBc3HdF"', '"\\n[redacted:random-text]"'),
        ('"\\u00e9ghp_' + "a1B2" * 9 + '"', '"\\u00e9[redacted:github-token]"'),
        ('{"ssn": 123456789, "a": 1}', '{"ssn": "[redacted:ssn]", "a": 1}'),
        ('{"a": "{\\"card\\": 4111111111111111}"}', '{"a": "{\\"card\\": \\"[redacted:card]\\"}"}'),
        ("[1, 4111111111111111]", '[1, "[redacted:card]"]'),
        ("a,4111111111111111,b", "a,[redacted:card],b"),
    ],
)
def test_escapes_and_numbers_stay_valid(logged: str, left: str) -> None:
    assert redact(logged, personal=personal_kinds()).text == left
