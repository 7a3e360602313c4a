"""Signs of injection: few false alarms and linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.fence import is_injection_suspected, sign_rows
from evaluation_pipelines_tests.judging.domain.genuine import AGENTS, texts_of
from evaluation_pipelines_tests.judging.domain.redaction_figures import code_files


@pytest.mark.parametrize("agent", AGENTS)
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
