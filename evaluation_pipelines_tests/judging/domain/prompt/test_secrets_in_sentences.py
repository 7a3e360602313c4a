# ruff: noqa: RUF001 - signs of other scripts
"""Secrets that are told in sentences, sent by scripts or written as bytes, and harmless text."""

import pytest

from evaluation_pipelines.judging.domain.prompt.redaction import redact

W = "Wint3r!Kiosk"
BYTES = "174, 47, 154, 16, 202, 193, 206, 113, 199, 190, 53, 133, 169, 175, 31, 56"
HEX = ", ".join(f"0x{int(each):02x}" for each in BYTES.split(", "))
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
    (f"Das Passwort lautet {W}", W),
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
    ("app password: qwxz plmk vbtr ghjd", "qwxz plmk vbtr ghjd"),
    ('"api_key": "a1b2 c3d4 e5f6 g7h8"', "a1b2 c3d4 e5f6 g7h8"),
    ("The token is 9F3A 77B2 C0D1 4E8F.", "9F3A 77B2 C0D1 4E8F"),
    # Scripts that type
    ('expect "*assword:*"\nsend "hunterseven\\r"', "hunterseven"),
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
    ("Your verification code is 482913", "482913"),
    ("OTP: 482 913", "482 913"),
    ("2FA code 482913, valid for 30 s", "482913"),
    ("Dein Bestätigungscode lautet 482913.", "482913"),
    ("验证码：482913", "482913"),
    ("recovery codes:\n1. a8kd2-9fj3k\n2. pq02x-77dhz", "pq02x-77dhz"),
    # Words after "passphrase"
    ("Passphrase: correct horse battery staple", "correct horse battery staple"),
    ("The passphrase for the key is marble-otter-lantern-seven.", "marble-otter-lantern-seven"),
    ("ssh-add, passphrase correct horse battery staple", "correct horse battery staple"),
]

HARMLESS = [
    "Das Passwort ist falsch.",
    "Das Passwort muss geändert werden",
    "Le mot de passe est incorrect",
    "La clave es única en cada tabla",
    "密码是什么",
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
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_the_secret_is_removed(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text, personal=()).text


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_resembles_one_stays(text: str) -> None:
    assert redact(text, personal=()).text == text
