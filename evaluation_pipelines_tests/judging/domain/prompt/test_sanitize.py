"""What is not seen is taken away; what ends a chat message is broken."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.sanitize import plain_line, plain_text


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
def test_a_text_is_what_can_be_seen_of_it(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_a_line_is_one_line_and_not_too_long() -> None:
    assert plain_line("  a\n\tb  ") == "a b"
    assert plain_line("abcdef", longest=5) == "abcd…"
    assert plain_line("abcde", longest=5) == "abcde"


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    plain = plain_text(text)

    assert {unicodedata.category(each) for each in plain} & {"Cf", "Cs", "Co", "Cn"} == set()
    assert not any(unicodedata.category(each) == "Cc" for each in plain.replace("\t", "\n")) or (
        {each for each in plain if unicodedata.category(each) == "Cc"} <= {"\n", "\t"}
    )
    assert "<|im_end|>" not in plain
