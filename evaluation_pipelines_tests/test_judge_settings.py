"""Settings of the judge: where it is, what it may cost, and what is missing."""

import os
from pathlib import Path

import pytest

from evaluation_pipelines.settings import SettingsError, load_settings


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.upper().startswith(("EVAL_", "OPENAI_"))]:
        monkeypatch.delenv(variable)


def put(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set environment variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_without_a_model_there_is_no_judge_and_the_variable_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, OPENAI_BASE_URL="http://localhost:8000/v1", OPENAI_API_KEY="sk-1")

    settings = load_settings()

    assert settings.judge_endpoint is None
    assert settings.why_no_judge == (
        "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
    )


def test_without_an_endpoint_there_is_no_judge_and_the_variables_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, EVAL_JUDGE_MODEL="qwen")

    settings = load_settings()

    assert settings.judge_endpoint is None
    assert settings.why_no_judge is not None
    assert "set OPENAI_BASE_URL" in settings.why_no_judge
    assert "OPENAI_API_KEY" in settings.why_no_judge


def test_a_model_and_an_address_are_enough_for_a_local_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, EVAL_JUDGE_MODEL="qwen", OPENAI_BASE_URL="http://localhost:8000/v1")

    settings = load_settings()

    assert settings.why_no_judge is None
    assert settings.judge_endpoint is not None
    assert settings.judge_endpoint.base_url == "http://localhost:8000/v1"
    assert (settings.judge_endpoint.model, settings.judge_endpoint.api_key) == ("qwen", None)


def test_a_key_alone_means_openai_itself_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, EVAL_JUDGE_MODEL="gpt-5.5", OPENAI_API_KEY="sk-hunter2")

    settings = load_settings()

    endpoint = settings.judge_endpoint
    assert endpoint is not None
    assert endpoint.base_url == "https://api.openai.com/v1"
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == "sk-hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {endpoint!r} {settings.model_dump_json()}"


def test_the_endpoint_can_stand_in_the_env_file() -> None:
    Path(".env").write_text(
        "EVAL_JUDGE_MODEL=qwen\nOPENAI_BASE_URL=http://localhost:1/v1\nOPENAI_API_KEY=sk-2\n"
    )

    endpoint = load_settings().judge_endpoint

    assert endpoint is not None
    assert endpoint.base_url == "http://localhost:1/v1"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://localhost/v1",
        "http://",
        "http://ada:hunter2@localhost/v1",
        "http://localhost/v1?key=hunter2",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    put(monkeypatch, OPENAI_BASE_URL=url)

    with pytest.raises(SettingsError, match="  OPENAI_BASE_URL: must ") as raised:
        load_settings()

    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("text", "expected"), [("none", None), ("None", None), ("0.7", 0.7)])
def test_a_temperature_can_be_left_to_the_model(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: float | None
) -> None:
    put(monkeypatch, EVAL_JUDGE_TEMPERATURE=text)

    assert load_settings().judge_temperature == expected


@pytest.mark.parametrize(
    "given",
    [
        {"INPUT": "2"},
        {"OUTPUT": "8"},
        {"CACHED": "1"},
        {"INPUT": "2", "CACHED": "1"},
        {"OUTPUT": "8", "CACHED": "1"},
    ],
)
def test_prices_of_input_and_output_go_together(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    put(monkeypatch, **{f"EVAL_JUDGE_{name}_USD_PER_MTOK": usd for name, usd in given.items()})

    with pytest.raises(SettingsError, match=r"EVAL_JUDGE_OUTPUT_USD_PER_MTOK.* go together"):
        load_settings()


def test_a_model_of_ones_own_costs_nothing_when_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    put(
        monkeypatch,
        EVAL_JUDGE_INPUT_USD_PER_MTOK="0",
        EVAL_JUDGE_OUTPUT_USD_PER_MTOK="0",
        EVAL_JUDGE_MAX_COST_USD="0",
    )

    settings = load_settings()

    assert (settings.judge_input_usd_per_mtok, settings.judge_max_cost_usd) == (0, 0)


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("EVAL_JUDGE_MAX_COST_USD", "nan", "finite number"),
        ("EVAL_JUDGE_MAX_COST_USD", "-1", "greater than or equal to 0"),
        ("EVAL_JUDGE_CONCURRENCY", "0", "greater than 0"),
        ("EVAL_NIGHTLY_HOUR", "24", "less than or equal to 23"),
        ("EVAL_NIGHTLY_TIME_ZONE", "Mars/Olympus", "a name such as Europe/Vienna or UTC"),
        ("EVAL_NIGHTLY_TIME_ZONE", "../etc/passwd", "a name such as Europe/Vienna or UTC"),
        ("EVAL_JUDGE_SAMPLE_RATE", "1.5", "less than or equal to 1"),
        ("EVAL_JUDGE_TIMEOUT_SECONDS", "0", "greater than 0"),
        ("EVAL_JUDGE_TEMPERATURE", "warm", "valid number"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, fault: str
) -> None:
    put(monkeypatch, **{variable: value})

    with pytest.raises(SettingsError, match=fault) as raised:
        load_settings()

    assert f"  {variable}='{value}': " in str(raised.value)


def test_the_night_can_be_that_of_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, EVAL_NIGHTLY_TIME_ZONE="Europe/Vienna")

    assert load_settings().nightly_time_zone == "Europe/Vienna"
