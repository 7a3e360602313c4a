"""Settings: where they come from, what they derive, what they refuse."""

import os
from datetime import date
from pathlib import Path

import pytest

from evaluation_pipelines.cli.settings import settings_table
from evaluation_pipelines.settings import Settings, SettingsError, load_settings


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the developer's and no ``.env`` of the checkout."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.upper().startswith(("EVAL_", "OPENAI_"))]:
        monkeypatch.delenv(variable)


def test_without_any_variable_everything_has_a_default() -> None:
    settings = load_settings()

    assert settings.landing_dir == Path("data/landing")
    assert settings.lake_dir == Path("data/lake")
    assert settings.ledger_url == "sqlite:///data/ledger.db"
    assert settings.start_date == date(2025, 1, 1)
    assert settings.max_line_bytes == 67_108_864  # 64 * 1024 * 1024
    assert settings.quarantine_max_share == 0.01


def test_folders_move_with_the_data_folder_unless_they_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVAL_DATA_DIR", "/srv/eval")
    monkeypatch.setenv("EVAL_LANDING_DIR", "/var/log/otel")

    settings = load_settings()

    assert settings.landing_dir == Path("/var/log/otel")
    assert settings.lake_dir == Path("/srv/eval/lake")
    assert settings.ledger_url == "sqlite:////srv/eval/ledger.db"


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("EVAL_DATA_DIR", "~/eval")

    assert load_settings().lake_dir == Path("/home/ada/eval/lake")


def test_the_environment_overrules_the_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("EVAL_COMPACT_PARTS=3\nEVAL_MAX_ATTRIBUTES=7\nOTHER=1\n")
    monkeypatch.setenv("EVAL_COMPACT_PARTS", "4")

    settings = load_settings()

    assert (settings.compact_parts, settings.max_attributes) == (4, 7)


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_COMPACT_PARTS", "")

    assert load_settings().compact_parts == 24


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("EVAL_BATCH_BYTES", "lots", "could not parse value and unit from byte string"),
        ("EVAL_MAX_LINE_BYTES", "0", "greater than 0"),
        ("EVAL_KEEP_UNKNOWN_EVENTS", "perhaps", "valid boolean"),
        ("EVAL_START_DATE", "1999-01-01", "greater than or equal to 2020-01-01"),
        ("EVAL_START_DATE", "yesterday", "valid date"),
        ("EVAL_QUARANTINE_MAX_SHARE", "1.5", "less than or equal to 1"),
        ("EVAL_QUARANTINE_MAX_SHARE", "nan", "less than or equal to 1"),
        ("EVAL_COMPACT_PARTS", "1", "greater than or equal to 2"),
        ("EVAL_SESSION_IDLE_MINUTES", "half", "valid integer"),
        ("EVAL_JUDGE_MAX_COST_USD", "nan", "finite number"),
        ("EVAL_JUDGE_MAX_COST_USD", "-1", "greater than or equal to 0"),
        ("EVAL_JUDGE_CONCURRENCY", "0", "greater than 0"),
        ("EVAL_NIGHTLY_HOUR", "24", "less than or equal to 23"),
        ("EVAL_NIGHTLY_TIME_ZONE", "Mars/Olympus", "a name such as Europe/Vienna or UTC"),
        ("EVAL_NIGHTLY_TIME_ZONE", "../etc/passwd", "a name such as Europe/Vienna or UTC"),
        ("EVAL_JUDGE_SAMPLE_RATE", "1.5", "less than or equal to 1"),
        ("EVAL_JUDGE_TIMEOUT_SECONDS", "0", "greater than 0"),
        ("EVAL_JUDGE_TEMPERATURE", "warm", "valid number"),
        ("EVAL_SIGNAL_DELTAS", "{", "it is no JSON"),
        ("EVAL_EXCLUDE_SESSIONS", "ci", "it is no JSON"),
    ],
)
def test_a_fault_names_the_variable_its_value_what_is_allowed_and_the_meaning(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, fault: str
) -> None:
    monkeypatch.setenv(variable, value)
    meaning = {row.variable: row.description for row in settings_table()}[variable]

    with pytest.raises(SettingsError) as raised:
        load_settings()

    heading, line = str(raised.value).splitlines()
    assert heading == "These settings cannot be used:"
    assert line.startswith(f"  {variable}='{value}': ")
    assert fault in line
    assert line.endswith(f"Meaning: {meaning}.")


def test_all_faults_are_told_at_once_and_derived_defaults_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVAL_LOCK_TIMEOUT_SECONDS", "0")
    monkeypatch.setenv("EVAL_LEDGER_URL", "ledger.db")

    with pytest.raises(SettingsError) as raised:
        load_settings()

    variables = [
        line.split(":")[0].split("=")[0].strip() for line in str(raised.value).splitlines()
    ]
    assert variables == [
        "These settings cannot be used",
        "EVAL_LEDGER_URL",
        "EVAL_LOCK_TIMEOUT_SECONDS",
    ]


def test_a_misspelled_setting_is_named_once_with_similar_ones(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".env").write_text("EVAL_JUDGE_MODLE=aspen\nEVAL_DATA_DIR=data\n")
    monkeypatch.setenv("EVAL_MAX_COST_PER_DAY", "5")
    for foreign in ("EVAL_DATASET", "EVAL_BENCH_DIR", "EVAL_JUDGE_TEST_BASE_URL", "OPENAI_ORG_ID"):
        monkeypatch.setenv(foreign, "x")
    load_settings()
    load_settings()
    assert caplog.messages == [
        "EVAL_JUDGE_MODLE is not a setting. Similar: EVAL_JUDGE_MODE, EVAL_JUDGE_MODEL",
        "EVAL_MAX_COST_PER_DAY is not a setting. Similar: EVAL_JUDGE_MAX_COST_PER_DAY_USD",
    ]


def test_a_removed_setting_that_is_still_set_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path(".env").write_text("EVAL_LEASE_SECONDS=30\nEVAL_JUDGE_LEASE_SECONDS=30\n")
    load_settings()
    load_settings()
    assert caplog.messages == [
        "EVAL_LEASE_SECONDS no longer has an effect: set EVAL_LOCK_TIMEOUT_SECONDS instead",
        (
            "EVAL_JUDGE_LEASE_SECONDS no longer has an effect: one judge works at a time, and its "
            "death is noticed at once"
        ),
    ]


def test_the_password_of_a_ledger_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_LEDGER_URL", "postgresql+psycopg://eval:hunter2@db/eval")
    assert "hunter2" not in repr(load_settings())

    monkeypatch.setenv("EVAL_LEDGER_URL", "mysql://eval:hunter2@db/eval")
    with pytest.raises(SettingsError, match="sqlite:///") as raised:
        load_settings()
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_every_setting_is_described_in_a_table_whose_defaults_are_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unset = load_settings()
    for row in settings_table():
        assert row.description
        monkeypatch.setenv(row.variable, row.default)

    assert len(settings_table()) == len(Settings.model_fields)
    assert load_settings() == unset


def test_a_new_setting_takes_the_place_of_another() -> None:
    assert len(Settings.model_fields) <= 101  # one that no user changes is a constant


def test_rules_that_leave_sessions_out_are_json_and_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVAL_EXCLUDE_SESSIONS", '{"robots": {"user_id": "ci"}}')
    assert load_settings().exclude_sessions == {"robots": {"user_id": "ci"}}
    monkeypatch.setenv("EVAL_EXCLUDE_SESSIONS", '{"robots": {"usr": "ci"}}')
    with pytest.raises(SettingsError, match="rule 'robots' names usr, which is not one of: org"):
        load_settings()


def test_the_partitions_of_a_folder_may_begin_with_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_DATA_DIR", str(tmp_path))
    assert load_settings().start_date == date(2025, 1, 1)
    (tmp_path / "start_date").write_text("2026-09-22\n")
    assert load_settings().start_date == date(2026, 9, 22)
    (tmp_path / "start_date").write_text("soon\n")
    with pytest.raises(SettingsError, match="EVAL_START_DATE='soon'"):
        load_settings()


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
