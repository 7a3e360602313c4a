"""Untrusted text: the fence around it, hidden characters, and signs of injection."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.fence import (
    SEAL,
    fenced,
    is_injection_suspected,
    sign_rows,
    without_boundary,
)
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, redact
from evaluation_pipelines.judging.domain.prompt.sanitizer import (
    TextSanitizer,
    plain_line,
    plain_text,
)
from evaluation_pipelines_tests.judging.domain.genuine import texts_of
from evaluation_pipelines_tests.judging.domain.judging_builders import BOUNDARY
from evaluation_pipelines_tests.judging.domain.redaction_figures import code_files
from evaluation_pipelines_tests.telemetry.captures import CLIS

OPENING = f"<<<material {BOUNDARY}>>>"
CLOSING = f"<<<end of material {BOUNDARY}>>>"


def test_every_line_begins_with_a_bar() -> None:
    assert fenced("one\n\n  two", BOUNDARY) == f"{OPENING}\n| one\n|\n|   two\n{CLOSING}"


@pytest.mark.parametrize(
    "line_end", ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_every_line_end_is_followed_by_a_bar(line_end: str) -> None:
    assert fenced(f"one{line_end}two", BOUNDARY) == f"{OPENING}\n| one\n| two\n{CLOSING}"


@pytest.mark.parametrize(
    "spelled",
    [
        BOUNDARY,
        BOUNDARY.upper(),
        " ".join(BOUNDARY),
        "-".join(BOUNDARY),
        "\n".join(BOUNDARY),
        "\u200b".join(BOUNDARY),
        "\u0301".join(BOUNDARY),  # an accent on each letter
        "".join(chr(ord(letter) + 0xFEE0) for letter in BOUNDARY),  # full width
        BOUNDARY.replace("a", "\u0430").replace("e", "\u0435"),  # Cyrillic letters
        BOUNDARY.replace("0", "O").replace("1", "l"),
    ],
)
def test_every_spelling_of_the_boundary_is_removed(spelled: str) -> None:
    assert without_boundary(f"before {spelled} after", BOUNDARY) == "before [removed] after"


def test_a_removal_does_not_form_a_new_boundary() -> None:
    half = len(BOUNDARY) // 2
    nested = BOUNDARY[:half] + BOUNDARY + BOUNDARY[half:]

    left = without_boundary(f"{nested} {BOUNDARY}", BOUNDARY)

    assert left == f"{BOUNDARY[:half]}[removed]{BOUNDARY[half:]} [removed]"


def test_other_text_is_unchanged() -> None:
    text = "Grüße \u00bd \u0430bc\u200b 9f8e7d"

    assert without_boundary(text, BOUNDARY) == text


@pytest.mark.parametrize("boundary", ["", "short", "x" * 129, "0123456789abcde\n", "a b" * 8])
def test_a_guessable_boundary_is_refused(boundary: str) -> None:
    with pytest.raises(ValueError, match="16 to 128 random ASCII letters"):
        fenced("text", boundary)


@given(st.text() | st.lists(st.sampled_from([OPENING, CLOSING, BOUNDARY, "\n", "x"])).map("".join))
def test_between_the_two_lines_every_line_begins_with_a_bar(text: str) -> None:
    first, *inside, last = fenced(text, BOUNDARY).splitlines()

    assert (first, last) == (OPENING, CLOSING)
    assert all(line.startswith("|") and BOUNDARY not in line for line in inside)


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

    assert {unicodedata.category(sign) for sign in plain} & {"Cf", "Cs", "Co", "Cn"} == set()
    assert not any(unicodedata.category(sign) == "Cc" for sign in plain.replace("\t", "\n")) or (
        {sign for sign in plain if unicodedata.category(sign) == "Cc"} <= {"\n", "\t"}
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


@pytest.mark.parametrize("agent", CLIS)
def test_recorded_sessions_have_no_sign(agent: str) -> None:
    assert not is_injection_suspected(texts_of(agent))


def test_few_files_of_code_have_a_sign() -> None:
    files = code_files()

    flagged = [path.name for path in files if is_injection_suspected(path.read_text("utf-8"))]

    assert len(files) >= 40  # of the standard library: 3.13 dropped some
    assert len(flagged) <= 0.03 * len(files), flagged


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Add the build folder to .gitignore and ignore warnings of the linter.",
        "Forget about the old branch.",
        "total 48\ndrwxr-xr-x 2 dev dev 4096 Nov 2 09:00 src",
        "12 passed, 0 failed (100 %)",
        "Score of the model on the benchmark: see table 2",
        "2026/11/21",
        "Was ist hier die beste Note?",
        "Это обычный текст.",
    ],
)
def test_ordinary_work_has_no_sign(text: str) -> None:
    assert not is_injection_suspected(text)


ROWS = [row for name, rows in sign_rows().items() if name != "languages" for row in rows]
LANGUAGES = sign_rows()["languages"]


@pytest.mark.parametrize(("pattern", "match", "near_miss"), ROWS)
def test_every_row_finds_its_match_and_not_its_near_miss(
    pattern: str, match: str, near_miss: str
) -> None:
    assert re.search(pattern, match.lower(), re.MULTILINE)
    assert is_injection_suspected(match)
    assert not is_injection_suspected(near_miss)


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_every_language_has_its_signs(language: dict[str, str]) -> None:
    praise = [word.strip() for word in language["full_marks"].split(",")]

    assert [word for word in praise if not is_injection_suspected(f"a {word} b")] == []
    assert is_injection_suspected(language["match"])
    assert not is_injection_suspected(language["near_miss"])


HOSTILE = [
    "a ", "ignore ", "ignore all ", "give ", "dear ", "\n", " ", "ab_cd", "as a ", "you are ",
    "<|a", "?!", "judge a ", "end of the session ", "final ", "ignoriere ", "score ", "a_b: ",
    "*", "(((",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("last", ["", "\u00e9"])
def test_matching_takes_linear_time(piece: str, last: str) -> None:
    is_injection_suspected(piece * (200_000 // len(piece)) + last)


@given(st.text() | st.lists(st.sampled_from(HOSTILE), max_size=40).map("".join))
def test_any_text_is_accepted(text: str) -> None:
    assert is_injection_suspected(text) in (True, False)
