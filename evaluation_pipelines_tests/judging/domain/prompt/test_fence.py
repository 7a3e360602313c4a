"""The fence around untrusted text cannot be closed from inside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.fence import fenced, without_boundary
from evaluation_pipelines_tests.judging.domain.judging_builders import BOUNDARY

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
