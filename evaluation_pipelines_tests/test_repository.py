"""What the checkout as a whole must keep to."""

import ast
import re
import runpy
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evaluation_pipelines_tests.docs.settings import settings_markdown

ROOT = Path(__file__).parents[1]
CONFIGURATION = {".cfg", ".ini", ".lock", ".md", ".toml", ".txt", ".yaml", ".yml"}
# Where packages come from is a matter of the machine, not of the project.
PACKAGE_SOURCE = re.compile(r"index[-_]url|find[-_]links|trusted[-_]host|://\S*/simple\b")
SQL_FILES = sorted((ROOT / "sql").rglob("*.sql"))


def read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(read("pyproject.toml"))["project"]
    return table


def requirements() -> list[Requirement]:
    """What pyproject asks for, with and without extras."""
    extras = project()["optional-dependencies"].values()
    names = [*project()["dependencies"], *(name for extra in extras for name in extra)]
    return [Requirement(name) for name in names]


def locked() -> dict[str, set[str]]:
    """Package -> versions; several where they depend on the version of Python."""
    versions: dict[str, set[str]] = {}
    for line in read("requirements.lock").splitlines():
        if line and not line.startswith(("#", " ")):
            pin = Requirement(line.removesuffix(" \\"))
            versions.setdefault(canonicalize_name(pin.name), set()).add(str(pin.specifier))
    return versions


def project_files() -> list[Path]:
    """Tracked files, and those that are about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for line in listing.splitlines() if (path := ROOT / line).is_file()]


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(read(path).splitlines())
        for path in project_files()
        if path.suffix == ".py"
    }

    assert {path: lines for path, lines in lengths.items() if lines > 600} == {}


def test_a_feature_names_the_modules_that_other_features_import() -> None:
    # All others are its own. A face that imported them would make each command import everything.
    count = runpy.run_path(str(ROOT / ".ci/count.py"))
    paths = (ROOT / "evaluation_pipelines").rglob("*.py")
    modules = {count["module_name"](ROOT, path): read(path) for path in paths}
    used = defaultdict[str, set[str]](set)
    for importer, text in modules.items():
        for name in count["imported"](text) & modules.keys():
            folder = ".".join(name.split(".")[:2])
            if name != folder and not f"{importer}.".startswith(f"{folder}."):
                used[folder].add(name.removeprefix(f"{folder}."))

    assert {
        folder: (sorted(names - named), sorted(named - names))
        for folder, names in ((folder, _faces(names)) for folder, names in used.items())
        if (named := _named(folder, modules)) != names
    } == {}


def _faces(names: set[str]) -> set[str]:
    """Return the names of modules; a subpackage is one name if there are many."""
    return names if len(names) <= 12 else {name.split(".")[0] for name in names}


def _named(folder: str, modules: dict[str, str]) -> set[str]:
    """Return the modules and subpackages that the docstring of a folder names."""
    named = re.findall(r"``([\w.]+)``", ast.get_docstring(ast.parse(modules[folder])) or "")
    return {name for name in named if f"{folder}.{name}" in modules}


def test_no_small_module_has_one_importer() -> None:
    # Such a module belongs into the one that imports it.
    count = runpy.run_path(str(ROOT / ".ci/count.py"))

    assert count["small_modules"](ROOT) == []


def test_no_test_needs_a_benchmark() -> None:
    # `make test` neither collects nor imports them.
    needed = re.compile(r"^(from|import) evaluation_pipelines_tests\.benchmarks", re.MULTILINE)
    tests = (ROOT / "evaluation_pipelines_tests").rglob("*.py")
    apart = [path for path in tests if path.parent.name != "benchmarks"]

    assert [path.name for path in apart if needed.search(read(path))] == []


def test_no_file_says_where_packages_come_from() -> None:
    telling = [
        str(path.relative_to(ROOT))
        for path in project_files()
        if (path.suffix in CONFIGURATION or path.parent == ROOT or ".ci" in path.parts)
        and PACKAGE_SOURCE.search(read(path))
    ]

    assert telling == []


def test_the_lock_holds_a_version_that_fits_for_every_dependency() -> None:
    unfit = {
        str(wanted): locked().get(canonicalize_name(wanted.name))
        for wanted in requirements()
        if not _fits(wanted, locked().get(canonicalize_name(wanted.name), set()))
    }

    assert unfit == {}


def _fits(wanted: Requirement, pins: set[str]) -> bool:
    versions = [pin.removeprefix("==") for pin in pins]
    return bool(versions) and all(wanted.specifier.contains(version) for version in versions)


def test_the_lock_holds_exact_versions_and_no_addresses() -> None:
    assert all(
        re.fullmatch(r"==[\w.!+]+", specifier)
        for specifiers in locked().values()
        for specifier in specifiers
    )
    assert "/" not in read("requirements.lock")


def test_every_package_of_the_lock_has_hashes() -> None:
    blocks = re.split(r"^(?=[A-Za-z0-9])", read("requirements.lock"), flags=re.MULTILINE)[1:]

    assert [
        block for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", block)
    ] == []


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_sql_file_is_one_statement_that_begins_with_its_grain(path: Path) -> None:
    text = read(path)
    code = re.sub(r"--.*|'[^']*'", "", text)

    assert text.startswith("-- Grain: ")
    assert ";" not in code
    assert code.strip()


def test_the_page_of_settings_is_up_to_date() -> None:
    # Refresh it with: make documents
    assert read("docs/settings.md") == settings_markdown()
