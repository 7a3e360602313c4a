#!/usr/bin/env python3
"""Count what has to be maintained: code, files, imports, tests, documents.

Code is lines without blanks, comments, docstrings and imports, in Python, SQL files, templates,
scripts and tables of data that the program reads. Run it in the root of the checkout;
with a git revision it counts that one. The second column is the difference to `baseline.txt`.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

SMALL_CODE_LINES = 40
OTHER_CODE = {
    ".sql": r"--",
    ".html": r"<!--|\{#",
    ".css": r"/\*",
    ".js": r"//",
    ".sh": r"#",
    ".yaml": r"#",
    ".toml": r"#",
    ".json": r"\0",
}
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def python_lines(text: str) -> tuple[int, int]:
    """Return the lines of code and of imports of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in NO_CODE for n in range(t.start[0], t.end[0] + 1)}
    imports, texts = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            texts |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines - imports - texts), len(lines & imports)


def other_lines(path: Path) -> int:
    """Return the lines of another file that are neither blank nor a comment."""
    mark = re.compile(rf"\s*(?:{OTHER_CODE.get(path.suffix, '#')})")
    return sum(
        bool(line.strip()) and not mark.match(line)
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def module_name(root: Path, path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(text: str) -> set[str]:
    """Return the names that a module imports, and those of the modules they may be of."""
    wanted = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            wanted |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
    return wanted


def importers(modules: dict[str, str]) -> Counter[str]:
    """Return how many modules of the package import each module."""
    found = Counter[str]()
    for name, text in modules.items():
        found.update((imported(text) & set(modules)) - {name})
    return found


def small_modules(root: Path) -> list[str]:
    """Return the modules under 40 lines of code that one other module imports."""
    paths = {
        module_name(root, path): path
        for path in (root / "evaluation_pipelines").rglob("*.py")
        if path.name != "__init__.py"
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    counted = importers(texts)
    return sorted(
        name
        for name, text in texts.items()
        if counted[name] == 1 and 0 < python_lines(text)[0] < SMALL_CODE_LINES
    )


def counts(root: Path) -> dict[str, int]:
    """Return all figures of a checkout."""
    package, tests = root / "evaluation_pipelines", root / "evaluation_pipelines_tests"
    python = [python_lines(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")]
    others = [
        p
        for folder in (package, root / "sql", root / ".ci")
        for p in folder.rglob("*")
        if p.is_file() and p.suffix in {*OTHER_CODE, ""}
    ]
    by_kind = Counter[str]()
    for path in others:
        by_kind[path.suffix or "scripts"] += other_lines(path)
    by_kind["scripts"] += other_lines(root / "Makefile")
    documents = [root / "README.md", *(p for p in (root / "docs").rglob("*.md"))]
    code, imports = sum(c for c, _ in python), sum(i for _, i in python)
    return {
        "code lines, all": code + sum(by_kind.values()),
        "code lines, Python": code,
        **{
            f"code lines, {kind.removeprefix('.')}": lines
            for kind, lines in sorted(by_kind.items())
            if lines
        },
        "files with Python code": sum(c > 0 for c, _ in python),
        "import lines": imports,
        "small modules with one importer": len(small_modules(root)),
        "test lines": sum(
            len(p.read_text(encoding="utf-8").splitlines()) for p in tests.rglob("*.py")
        ),
        "documents": len(documents),
        "document bytes": sum(p.stat().st_size for p in documents),
    }


def baseline() -> dict[str, int]:
    """Return the figures that later ones are compared with."""
    lines = (Path(__file__).parent / "baseline.txt").read_text(encoding="utf-8").splitlines()
    return {
        what.strip(): int(number) for what, _, number in (line.rpartition(" ") for line in lines)
    }


def main() -> None:
    """Print the figures of this checkout or of a revision, and the difference to the baseline."""
    if len(sys.argv) == 1:
        found = counts(Path())
    else:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(
                ["git", "archive", sys.argv[1]], check=True, capture_output=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            found = counts(Path(folder))
    for what, number in found.items():
        print(f"{what:34}{number:>9,}{number - baseline().get(what, 0):>+9,}")


if __name__ == "__main__":
    main()
