"""The report in a browser."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.pages import content_security_policy
from evaluation_pipelines_tests.world.runs import (
    SINCE,
    UNTIL,
    audits,
    card,
    cards,
    compared,
    run,
    sample,
    scores,
    three_models,
)

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = (
    "</title></style></script><script>document.documentElement.dataset.ran='script'</script>"
    "<img src=x onerror=\"document.documentElement.dataset.ran='image'\">"
    "'\"><svg/onload=document.documentElement.dataset.ran='svg'>&lt;{{x}}`$(x)"
)
TEXTS = (
    "organization_id",
    "classification_label",
    "profile_id",
    "effective_source",
    "provider",
    "task_class",
    "person",
    "status",
    "reason",
    "agent_id",
    "masque",
)
DISQUALIFIED: dict[str, Any] = {
    "is_disqualified": True,
    "disqualified": True,
    "quality_risk": True,
    "card_id": "card 1",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def opened(html: str, folder: Path) -> tuple[str, list[str]]:
    """The page after its scripts have run, and what the browser said on its console."""
    page = folder / "page.html"
    page.write_text(html, encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def hostile_page() -> str:
    """A report in which every text of telemetry is an attack."""
    texts: dict[str, Any] = dict.fromkeys(TEXTS, HOSTILE) | {"profile_version": 1}
    judged: dict[str, Any] = {"risk_profile_id": HOSTILE, "people_score": 50.0}
    rows = [
        *sample(f"a{HOSTILE}", scores(85, 40, seed=1), 0, **(texts | judged)),
        *sample(f"b{HOSTILE}", scores(60, 40, seed=2), 100, **(texts | judged)),
        run(800, 0.0, **(texts | judged | DISQUALIFIED)),
        run(900, None, **dict.fromkeys(TEXTS, HOSTILE)),
    ]
    rows = [row | {"session_key": f"{row['session_key']}{HOSTILE}"} for row in rows]
    question = Question(SINCE, UNTIL, label=HOSTILE, profile=HOSTILE, organization=HOSTILE)
    said = {
        "organization_id": HOSTILE,
        "session_key": rows[0]["session_key"],
        "profile_id": HOSTILE,
        "label": 1.0,
        "is_random": True,
    }
    found = compared(rows, question, audits=audits(said))
    return html_page(
        replace(found, cards=cards(card(reasoning=HOSTILE, disqualifier_triggered=HOSTILE)))
    )


def test_no_script_of_a_hostile_text_runs_and_nothing_complains(tmp_path: Path) -> None:
    html = hostile_page()
    dom, console = opened(html, tmp_path)
    assert console == []
    assert "data-ran" not in dom.partition("<body")[0]
    # Texts with two models, a verdict, the worst sessions: all of it was there to be obeyed.
    assert html.count("&lt;script&gt;") > 50
    for hostile_fact in ("Label", "Agent", "Masque", "Disqualified", "Quality risk"):
        assert re.search(
            rf"<dt>(<abbr[^>]*>)?{hostile_fact}(</abbr>)?</dt><dd>[^<]*&lt;script&gt;", html
        )
    assert re.search(r"Scorecard: 0\.0 of 100[^<]*&lt;script&gt;", html)
    assert dom.count("<script") == 1
    assert "<img" not in dom


def test_even_without_its_policy_no_script_of_a_hostile_text_runs(tmp_path: Path) -> None:
    dom, _ = opened(hostile_page().replace(content_security_policy(), ""), tmp_path)
    assert "data-ran" not in dom.partition("<body")[0]


def test_a_click_on_a_heading_sorts_by_it_and_another_one_the_other_way_round(
    tmp_path: Path,
) -> None:
    html = html_page(compared(three_models())).replace(content_security_policy(), "")
    click = """<script>
    const region = document.querySelector("[aria-label='code: models']"), said = [];
    const table = region.querySelector("table");
    const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent[0]);
    const heads = [...table.querySelectorAll("th button")];
    const cost = heads.find((head) => head.textContent == "Cost per session");
    for (let times = 0; times < 2; times++) {
      cost.click();
      said.push(names().join("") + cost.parentElement.getAttribute("aria-sort"));
    }
    document.documentElement.dataset.said = said.join(" ");
    </script></body>"""
    dom, console = opened(html.replace("</body>", click), tmp_path)
    assert console == []
    # Costs: cedar 0.5, aspen 0.4, birch 0.1.
    assert 'data-said="cabdescending bacascending"' in dom
