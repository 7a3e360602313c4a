"""A session is truncated to its token limit in a fixed order, and each cut is marked."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.characters import SEAL
from evaluation_pipelines.judging.domain.prompt.truncate import (
    LAST_STEPS,
    PromptPart,
    PromptStep,
    cut_middle,
    total_tokens,
    truncate,
)

HEADING = "IN ALL"


def step(
    number: int, text: str = "", *, stays: bool = False, is_tool_text: bool = True
) -> PromptStep:
    part = (PromptPart("result", text, is_tool_text),) if text else ()
    return PromptStep(f"{number}:00", f"STEP {number}", part, "", stays)


def many(count: int, *, text: str = "", stays: tuple[int, ...] = ()) -> list[PromptStep]:
    return [step(number, text, stays=number in stays) for number in range(count)]


def titles(text: str) -> list[str]:
    return [line for line in text.split("\n") if "] STEP" in line]


def test_a_session_that_fits_is_complete() -> None:
    reply = replace(
        step(0), title="PROMPT", parts=(PromptPart("", "one\ntwo", is_tool_text=False),)
    )
    call = replace(step(1, "a\n  b"), title="TOOL ls: ok", note="not logged: parameters")

    result = truncate(HEADING, [reply, call], 1000)

    assert result.text == (
        f"IN ALL\n[0:00{SEAL}] PROMPT\n  one\n  two\n[1:00{SEAL}] TOOL ls: ok\n"
        f"  result{SEAL}:\n    a\n      b\n  not logged: parameters{SEAL}"
    )
    assert not result.truncated
    assert result.tokens == total_tokens([result.text])


def test_long_tool_texts_lose_their_middle_first() -> None:
    long = "word " * 4000  # 20 000 characters, about 5 000 tokens
    words = "said " * 1000
    steps = [step(0, long), step(1, long), step(2, words, is_tool_text=False), step(3, "short")]

    result = truncate(HEADING, steps, 8_000)

    assert result.truncated
    assert result.tokens <= 8_000
    assert result.text.count("characters left out here") == 2
    assert "said " * 999 in result.text
    assert len(titles(result.text)) == 4
    # 8 000 characters each would be 2 * 2 500 tokens: the first size that fits.
    assert result.text.count("word") > 3000


def test_then_the_oldest_steps_are_omitted_except_those_that_stay() -> None:
    steps = many(40, text="word " * 60, stays=(0, 3, 7))

    result = truncate(HEADING, steps, 2_600)

    left = [int(line.split()[-1]) for line in titles(result.text)]
    assert {0, 3, 7} <= set(left)
    assert left[-LAST_STEPS:] == list(range(40 - LAST_STEPS, 40))
    gone = [number for number in range(40) if number not in left]
    assert gone
    # Omitted from the oldest on, without gaps.
    assert gone == [number for number in range(gone[-1] + 1) if number not in (0, 3, 7)]
    assert f"[... 2 steps from 1:00 to 2:00 left out here ...{SEAL}]" in result.text
    assert f"[... 3 steps from 4:00 to 6:00 left out here ...{SEAL}]" in result.text
    assert result.tokens <= 2_600


def test_then_all_long_texts_lose_their_middle() -> None:
    steps = [
        step(number, "said " * 2000, stays=True, is_tool_text=False) for number in range(LAST_STEPS)
    ]

    result = truncate(HEADING, steps, 3_000)

    assert len(titles(result.text)) == LAST_STEPS
    assert result.text.count("characters left out here") == LAST_STEPS
    assert 1_000 < result.tokens <= 3_000


def test_finally_the_complete_text_loses_its_middle() -> None:
    steps = many(500, text="it failed", stays=tuple(range(500)))

    result = truncate(HEADING, steps, 1_000)

    assert result.truncated
    assert 500 < result.tokens <= 1_000
    assert result.text.startswith(f"IN ALL\n[0:00{SEAL}] STEP 0")
    assert result.text.endswith("it failed")
    assert "characters left out here" in result.text


def test_without_steps_only_the_heading_is_left() -> None:
    assert truncate(HEADING, [], 100).text == "IN ALL"


def test_a_short_text_is_not_cut() -> None:
    assert cut_middle("abc", 3) == "abc"


def test_without_a_space_nearby_the_cut_splits_a_word() -> None:
    assert cut_middle("x" * 2000, 1000) == (
        f"{'x' * 500}\n[... 1000 characters left out here ...{SEAL}]\n{'x' * 500}"
    )


@given(st.text(max_size=300), st.integers(0, 100))
def test_a_cut_keeps_beginning_and_end_and_counts_the_missing_characters(
    text: str, max_length: int
) -> None:
    cut = cut_middle(text, max_length)

    if len(text) <= max_length:
        assert cut == text
    else:
        start, _, rest = cut.partition("\n[... ")
        missing, _, end = rest.partition(f" characters left out here ...{SEAL}]\n")
        assert text.startswith(start)
        assert text.endswith(end)
        assert len(start) + len(end) <= max_length
        assert int(missing) == len(text) - len(start) - len(end)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 30, 3000]), st.booleans(), st.booleans()), max_size=40
    ),
    st.sampled_from([150, 400, 1500, 6000]),
)
def test_the_limit_is_kept_and_cuts_are_marked(
    shapes: list[tuple[int, bool, bool]], budget: int
) -> None:
    steps = [
        step(number, "word " * words, stays=stays, is_tool_text=is_tool_text)
        for number, (words, stays, is_tool_text) in enumerate(shapes)
    ]

    result = truncate(HEADING, steps, budget)

    assert result.tokens <= budget
    assert result.truncated == ("left out here" in result.text)
