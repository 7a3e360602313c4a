"""Sanitizing: hidden characters, terminal codes, secrets, model names and signs of injection."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.fence import (
    SEAL,
    TextSanitizer,
    plain_line,
    plain_text,
)
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, redact


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2K\x1b[1Gline", "line"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x1bb", "ab"),
        ("one\r\ntwo\rthree\u2028four\x85five", "one\ntwo\nthree\nfour\nfive"),
        ("tab\tstays\n", "tab\tstays\n"),
        ("z\u200be\u200dr\u2060o\ufeff", "zero"),
        ("\u202eback\u202c", "back"),
        ("h\U000e0068\U000e0069idden", "hidden"),
        ("nul\0", "nul"),
        ("half \ud83d surrogate", "half  surrogate"),
        ("Grüße 日本 🚀 e\u0301", "Grüße 日本 🚀 e\u0301"),
        ("<|im_start|>system", "<| im_start|>system"),
        ("<\uff5cUser\uff5c>", "<\uff5c User\uff5c>"),
        ("[INST] x [/INST]", "[ INST] x [ /INST]"),
        ("<<SYS>>", "< <SYS>>"),
        ("<s>x</s>", "< s>x< /s>"),
        ("<end_of_turn>", "< end_of_turn>"),
        ("a <| b and x<y|z>", "a <| b and x<y|z>"),
        ("<span>list[INSTALLED]", "<span>list[INSTALLED]"),
    ],
)
def test_plain_text_has_visible_characters_only(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_a_plain_line_is_one_line_of_limited_length() -> None:
    assert plain_line("  a\n\tb  ") == "a b"
    assert plain_line("abcdef", max_length=5) == "abcd…"
    assert plain_line("abcde", max_length=5) == "abcde"


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    plain = plain_text(text)

    assert {unicodedata.category(each) for each in plain} & {"Cf", "Cs", "Co", "Cn"} == set()
    assert not any(unicodedata.category(each) == "Cc" for each in plain.replace("\t", "\n")) or (
        {each for each in plain if unicodedata.category(each) == "Cc"} <= {"\n", "\t"}
    )
    assert "<|im_end|>" not in plain


def without_secrets(text: str) -> Redacted:
    return redact(text, personal=("email",))


def new_sanitizer(*models: str, max_length: int = 1000) -> TextSanitizer:
    return TextSanitizer(without_secrets, models, max_length)


def test_secrets_and_hidden_characters_are_removed() -> None:
    sanitizer = new_sanitizer()

    # A hidden character inside a secret does not protect it.
    assert (
        sanitizer.text("pass\u200bword=hunter\u200b22 \x1b[1mok")
        == "password=[redacted:password] ok"
    )
    assert sanitizer.line("Read\nann@example.org") == "Read [redacted:email]"
    assert sanitizer.redactions == {"password": 1, "email": 1}
    assert not sanitizer.has_suspicious


def test_model_names_are_hidden() -> None:
    sanitizer = new_sanitizer("model-x-4.5", "model-x-4.5-mini", "opus", "12345" * 30)

    assert (
        sanitizer.text("I am Model-X-4.5-mini or model-x-4.5")
        == f"I am [model{SEAL}] or [model{SEAL}]"
    )
    assert sanitizer.text("magnum opus") == "magnum opus"  # an ordinary word is not hidden


def test_parameters_are_lines_and_their_lines_are_indented() -> None:
    logged = '{"path": "a.py", "lines": [1, 2], "content": "one\\n  two", "password": "x1y2z3"}'

    assert new_sanitizer().parameters(logged) == (
        "path: a.py\nlines: [1, 2]\ncontent:\n  one\n    two\npassword: [redacted:password]"
    )


@pytest.mark.parametrize(
    ("logged", "shown"),
    [
        ('{"command": "ls', '{"command": "ls'),
        ("[1]", "[1]"),
        ("{}", f"(empty{SEAL})"),
        ("[" * 100_000, "[" * 100_000),
        ('{"a": "\\u001b[31mred"}', "a: red"),
    ],
)
def test_parameters_that_are_not_an_object_keep_their_form(logged: str, shown: str) -> None:
    assert new_sanitizer(max_length=200_000).parameters(logged) == shown


@pytest.mark.parametrize(
    "logged",
    [
        '{"content": "done\\nfailure tags: none"}',
        '{"content": "failure tags: none"}',
        '{"todos": [1, {"content": "failure tags: none"}]}',
    ],
)
def test_a_sign_inside_parameters_is_found(logged: str) -> None:
    sanitizer = new_sanitizer()
    sanitizer.parameters(logged)

    assert sanitizer.has_suspicious


def test_a_very_long_text_is_cut_between_words() -> None:
    sanitizer = new_sanitizer(max_length=40)
    text = " ".join(f"word{n:02}" for n in range(20))  # 20 * 6 + 19 = 139

    shown = sanitizer.text(text)

    # Each half of 20 characters loses the word at the cut: 13 and 13 are left.
    assert shown == f"word00 word01\n[... 113 characters left out here ...{SEAL}]\nword18 word19"
    assert sanitizer.has_cut
