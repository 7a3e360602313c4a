"""Secrets are not sent, and texts of a session do not change its score."""

from pathlib import Path

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts

SECRETS = {
    "api key": "sk-" + "proj-Zx81kdPq02LmNv57TyRw3sUb",
    "github token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "password in a URL": "correct-horse-battery",
    "e-mail": "jane.doe@example.com",
}
TEXT = (
    f"Use {SECRETS['api key']} and {SECRETS['github token']} with "
    f"postgres://app:{SECRETS['password in a URL']}@db.example.com/app, ask {SECRETS['e-mail']}."
)


def test_no_request_contains_a_secret_of_the_session(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1", text=TEXT))
    judged.run()

    sent = b"".join(request.raw for request in judge.requests)
    assert b"[redacted:" in sent
    assert [name for name, value in SECRETS.items() if value.encode() in sent] == []
    score = judged.score("s1#baseline-1")
    assert sum((score.redactions or {}).values()) >= len(SECRETS)
    assert not any(value in str(score) for value in SECRETS.values())


def test_the_api_key_is_sent_only_to_the_endpoint(
    judge: JudgeEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-" + "test-0123456789abcdef"
    judge.script(http_error(400, f"bad request with {key}"))
    with open_judged(tmp_path, judge.base_url, OPENAI_API_KEY=key) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        report = judged.run()

        assert judge.requests[0].headers["authorization"] == f"Bearer {key}"
        assert key not in str(report)
        assert key not in str(judged.score("s1#baseline-1"))
        assert key not in caplog.text
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert tmp_path / "ledger.db" in files
        stored = b"".join(path.read_bytes() for path in files)
        assert key.encode() not in stored
