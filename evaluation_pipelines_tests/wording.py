"""Words and names that the project does without, and patterns that may only become rarer.

``python -m evaluation_pipelines_tests.wording`` prints every forbidden word with its place, and
every pattern that is more frequent than ``wording.toml`` allows; then it fails. With ``--lower`` it
writes the counts of today as the new limits where they are lower (part of ``make documents``).
"""

import ast
import html
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BUDGET = Path(__file__).with_suffix(".toml")
_SUFFIXES = {".py", ".sql", ".md", ".toml", ".yaml", ".html", ".css", ".js"}
_IN_ANY_FILE = re.compile(
    r"\b(nobody|somebody|anybody|besides?|mend(s|ed|ing|able)?|tells? of|told of"
    r"|(?:is|are|was) no more|says else|so many"
    r"|\w*labelled(?!by)\w*|for each in(?= [^\s:])|def (?!test_)\w+_of_\w+)\b",
    re.IGNORECASE,
)
_IN_TEXTS = re.compile(
    r"\b(?:whoever|of late|anew|alike(?!:)|(?:is|are|was) said|stands? (?:for|under)|leads to"
    r"|has what|(?:of|from) before|of (?:today|now)|in all(?=[,:.;)]|$)|all in all|for the money"
    r"|scores? that counts?|judge alone|review (?:is )?due|too thin|to say of|like this|became of"
    r"|out there|takes? \w+ back|made good|of no use|any (?:longer|more)|persons|e-mails?|grey"
    r"|misspelt|labelled)\b|[\d}] %(?![\dA-Z}])|\d 000\b",
    re.IGNORECASE,
)
_PATTERNS = {
    "semicolon": re.compile("; "),
    "what as a noun": re.compile(
        r"(?:^|[.;:,(|] |\b(?:of|for|to|by|from|with|and|or|in|not) )[Ww]hat (?:\w+ ){0,2}?"
        r"(?:is|was|are|were|has|had|came|comes|counts?|it|they|needs|could|can|one|people"
        r"|judges|agents|have|did|does|cannot)\b"
    ),
    "that is": re.compile(r"\bthat (?:is|are|was|were|could|can)\b"),
    "those that": re.compile(r"\b[Tt]hose (?:that|of)\b"),
    "none is": re.compile(r"\b[Nn]one (?:is|are|of)\b"),
    "say, tell": re.compile(r"\b(?:says?|said|tells?|told)\b"),
    "where for if": re.compile(
        r"\bwhere (?:an?|the|it|they|no|none|one|that|this|those|each|all|nothing|agents?"
        r"|telemetry|texts|tokens|sessions?|people|models?|scores?)\b"
    ),
    "since for because": re.compile(
        r", since (?:an?|the|it|they|no|each|that|this|one|what|some|most|of|their|its|people"
        r"|all|\w+ing|then|there)\b"
    ),
    "from ... on": re.compile(r"\bfrom (?:\S+ ){0,4}?on(?=[,.;:)]|$| who| and)"),
    "apart, by itself": re.compile(r"\b(?:apart|by itself)\b"),
    "scorings": re.compile(r"\bscorings?\b"),
    "figures, texts": re.compile(r"\b(?:figures|texts)\b"),
    "newest, begin": re.compile(r"\b(?:newest|begins?|began|begun|beginning)\b"),
    "the former": re.compile(r"\bthe former\b"),
    "question as a heading": re.compile(r"^#+ .*\?|<h[1-4][^>]*>[^<]*\?"),
}
_FOR_JUDGES = (
    "evaluation_pipelines/judging/rubrics/",
    "evaluation_pipelines/judging/domain/prompt/",
)
"""Texts for judges: a changed word there makes older scores obsolete."""
_LEFT_OUT = ("evaluation_pipelines_tests/wording.", *_FOR_JUDGES)
_SQL = re.compile(r"\s*(select|insert|update|delete|with|create|alter|from|where)\b", re.IGNORECASE)


class Text(NamedTuple):
    """A text for people: ``shown`` by the program, in a ``document`` or a docstring (``code``)."""

    audience: str
    place: str
    words: str


def texts() -> Iterator[Text]:
    """Yield the texts of documents, templates, messages, docstrings and comments."""
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        without_code = re.sub(
            r"^```.*?^```",
            lambda block: "\n" * block[0].count("\n"),
            path.read_text("utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        for number, line in enumerate(without_code.splitlines(), 1):
            yield Text("documents", f"{path.relative_to(ROOT)}:{number}", line)
    package = ROOT / "evaluation_pipelines"
    for path in package.rglob("templates/*.html"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            shown = re.sub(r"\{\{.*?\}\}", "{}", re.sub(r"\{[%#].*?[%#]\}", " ", line))
            place = f"{path.relative_to(ROOT)}:{number}"
            yield Text("shown", place, html.unescape(re.sub(r"<(?!h\d)[^>]+>", " ", shown)))
    for path in package.rglob("*.py"):
        if not str(path.relative_to(ROOT)).startswith(_FOR_JUDGES):
            yield from _module_texts(path)


def _module_texts(path: Path) -> Iterator[Text]:
    source, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
    tree, seen = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                seen.add(id(constant))
                yield Text("code", f"{name}:{node.lineno}", text)
            case ast.expr() if id(node) not in seen and (shown := _literal(node)) is not None:
                seen.update(map(id, ast.walk(node)))
                if re.search(r"[a-z]{2,} [a-z{]", shown) and not _SQL.match(shown):
                    yield Text("shown", f"{name}:{node.lineno}", shown)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string:
            yield Text("code", f"{name}:{token.start[0]}", token.string.lstrip("# "))


def _literal(node: ast.expr) -> str | None:
    """Return a literal text, with ``{}`` for its values, or ``None``."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                str(expr.value) if isinstance(expr, ast.Constant) else "{}" for expr in values
            )
    return None


def forbidden() -> list[str]:
    """Return ``path:line: word`` of every forbidden word in a tracked or new file."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    in_files = [
        f"{path}:{number}: {found[0]}"
        for path in sorted(set(listing))
        if (Path(path).suffix in _SUFFIXES or path in ("Makefile", ".ci/run"))
        and not path.startswith(_LEFT_OUT)
        and (ROOT / path).is_file()
        for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1)
        for found in _IN_ANY_FILE.finditer(line)
    ]
    in_texts = [
        f"{text.place}: {found[0]}"
        for text in texts()
        if text.place.split(":")[0] != "STYLE.md"  # it shows what to avoid
        for found in _IN_TEXTS.finditer(text.words)
    ]
    return in_files + in_texts


def counts() -> dict[str, dict[str, int]]:
    """Return how often each pattern occurs, by audience."""
    found = {name: Counter[str]() for name in _PATTERNS}
    for text in texts():
        for name, pattern in _PATTERNS.items():
            found[name][text.audience] += len(pattern.findall(text.words))
    return {
        name: {audience: number[audience] for audience in ("shown", "documents", "code")}
        for name, number in found.items()
    }


def main(*, lowers: bool) -> None:
    """Print what is forbidden or above the budget, and fail; or lower the budget."""
    budget = tomllib.loads(BUDGET.read_text("utf-8"))
    now, faults = counts(), forbidden()
    for name, by_audience in now.items():
        for audience, number in by_audience.items():
            if number > budget[name][audience]:
                limit = budget[name][audience]
                faults.append(f"{audience}: {number} times {name!r}, at most {limit} are allowed")
            budget[name][audience] = min(number, budget[name][audience])
    if lowers:
        lines = [
            f'"{name}" = {{ {", ".join(f"{key} = {limits[key]}" for key in now[name])} }}\n'
            for name, limits in budget.items()
        ]
        comment = "# How often each pattern of wording.py may occur: it may only fall.\n"
        BUDGET.write_text(comment + "".join(lines), "utf-8")
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    if faults:
        sys.exit(f"{len(faults)} to rewrite: STYLE.md shows how")


if __name__ == "__main__":
    main(lowers="--lower" in sys.argv)
