"""What the documents name is there: files, headings, settings, commands, targets, columns."""

import re
from functools import cache
from pathlib import Path

import pytest
import typer

from evaluation_pipelines.cli.program import app
from evaluation_pipelines.cli.settings import settings_table
from evaluation_pipelines.definitions import defs
from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines_tests.docs.documents import (
    ROOT,
    anchors,
    blocks,
    code,
    documents,
    links,
    prose,
)

DOCUMENTS = pytest.mark.parametrize("document", documents(), ids=lambda path: path.name)
OF_TESTS = {"EVAL_BENCH_DIR", "EVAL_CLICKHOUSE_TEST_URL", "EVAL_JUDGE_TEST_BASE_URL"}
IN_THE_WHEEL = {"evaluation_pipelines/_sql", "evaluation_pipelines/pyproject.toml"}
OURS = ("evaluation_pipelines/", "evaluation_pipelines_tests/", "sql/", "docs/", ".ci/")


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


@DOCUMENTS
def test_every_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links(text_of(document)):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(text_of(target))):
            broken.append(link)

    assert broken == []


@DOCUMENTS
def test_every_path_in_the_checkout_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"(?<![\w/.])((?:[\w.]+/)+[\w.]*)", code(text_of(document)))
    ours = {path for path in named if path.startswith(OURS)} - IN_THE_WHEEL
    modules = {path for path in named if path.endswith(".py")} - ours - {"src/a.py"}
    places = [ROOT / "evaluation_pipelines", ROOT / "evaluation_pipelines_tests"]

    assert [path for path in sorted(ours) if not (ROOT / path).exists()] == []
    assert [
        module for module in sorted(modules) if not any((p / module).exists() for p in places)
    ] == []


@DOCUMENTS
def test_every_setting_that_is_named_exists(document: Path) -> None:
    named = set(re.findall(r"\bEVAL_[A-Z_]+", text_of(document)))

    assert named - OF_TESTS <= {row.variable for row in settings_table()}


@DOCUMENTS
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of(ROOT / "Makefile"), re.MULTILINE))

    assert set(re.findall(r"\bmake ([a-z][a-z-]*)", code(text_of(document)))) <= targets


@DOCUMENTS
def test_every_command_that_is_named_exists(document: Path) -> None:
    commands = typer.main.get_command(app).to_info_dict(typer.Context(typer.main.get_command(app)))
    named = set(re.findall(r"evaluation-pipelines ([a-z][a-z-]+)", code(text_of(document))))

    assert named <= set(commands["commands"])


@DOCUMENTS
def test_every_name_with_an_underscore_is_one_of_ours_or_of_an_agent(document: Path) -> None:
    text = text_of(document)
    inline = re.findall(r"`([^`\n]+)`", prose(text))
    named = {name for name in inline if re.fullmatch(r"_?[a-z0-9]+(_[a-z0-9]+)+", name)}
    queried = {word for block in blocks(text) for word in words_of(block.body) if block.is_run}

    assert sorted(named - words_in_use() - queried - FOREIGN) == []


FOREIGN = {
    "analytics_files",
    "flush_interval",
    "group_by",
    "log_user_prompt",
    "max_backups",
    "max_megabytes",
}
"""What stands in no source: settings of collectors and agents, a folder named after its link."""


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w*_\w*", text))


@cache
def words_in_use() -> set[str]:
    """Words of our sources, columns, names of folders, and what genuine telemetry says."""
    package = ROOT / "evaluation_pipelines"
    sources = [
        ROOT / "dagster.yaml",
        *package.rglob("*.py"),
        *(ROOT / "sql").rglob("*.sql"),
        *SAMPLES.rglob("*.jsonl"),
    ]
    words = {path.name for path in package.rglob("*") if path.is_dir()}
    words.update(*(table.schema.names() for table in TABLES))
    return words.union(*(words_of(path.read_text(encoding="utf-8")) for path in sources))


@cache
def code_location_names() -> set[str]:
    location = defs().get_repository_def()
    return {
        *(key.name for key in location.asset_graph.asset_check_keys),
        *(sensor_def.name for sensor_def in location.sensor_defs),
        *location.job_names,
        *(key.to_user_string() for key in location.asset_graph.get_all_asset_keys()),
    }


@DOCUMENTS
def test_every_check_job_and_sensor_that_is_named_is_in_the_code_location(document: Path) -> None:
    text = text_of(document)
    sensors = set(re.findall(r"`(\w+_sensor)`", text))
    checks = set(re.findall(r"check `(\w+)`", text))
    jobs = set(re.findall(r"job `(\w+)`", text))
    assets = set(re.findall(r"asset `(\w+)`", text))

    assert sensors | checks | jobs | assets <= code_location_names()


def test_no_document_names_a_place_of_the_machine_it_was_written_on() -> None:
    telling = re.compile(r"/(?:root|work|tmp|home)/(?!dev/)\S+")
    found = {path.name: telling.findall(text_of(path)) for path in documents()}

    assert {name: places for name, places in found.items() if places} == {}
