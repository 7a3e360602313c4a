"""The worst sessions: each row links to a card, and a card says what is known and nothing else."""

import re
from dataclasses import replace
from typing import Any

from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.comparison_report import markdown_report
from evaluation_pipelines.reporting.domain.comparison_tables import worst_table
from evaluation_pipelines_tests.comparison_builders import card, cards, compared, run

JUDGED: dict[str, Any] = {
    "effective_source": "scorecard",
    "profile_id": "p",
    "profile_version": 3,
    "risk_profile_id": "p",
    "card_id": "card 1",
}


def worst_details(found: Comparison) -> str:
    """Return the cards at the end of the page; empty without any."""
    return html_page(found).partition("Lowest scores, one by one")[2]


def facts(found: Comparison) -> dict[str, str]:
    """Name -> value of the facts of the only session."""
    page = re.sub(r"</?abbr[^>]*>", "", worst_details(found))
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))


def test_the_worst_are_so_by_the_automatic_score_and_a_persons_is_below_it() -> None:
    found = compared([run(0, 30.0, people_score=0.0), run(1, 60.0)])
    table = worst_table(found)
    first, second = (cells[0] for cells in table.rows)
    assert table.headings[0] == "Automatic score #"
    assert (first.shown, first.below) == ("30.0", "human 0.0")
    assert (second.shown, second.below) == ("60.0", "")


def test_every_row_leads_to_its_card_and_every_card_back() -> None:
    page = html_page(compared([run(at, float(at)) for at in range(12)]))
    links = re.findall(r'<a href="#session-(\d+)">(.*?)</a>', page)
    assert links == [(str(at + 1), f"s{at}#baseline-1") for at in range(10)]
    titles = re.findall(r'id="session-(\d+)"><h3>(\d+)\. (.*?)</h3>', page)
    assert titles == [(place, place, key) for place, key in links]
    assert page.count('<a href="#worst-sessions">') == 10
    assert page.count('id="worst-sessions"') == 1
    # No link leads anywhere else, but for the one of the first screen.
    assert page.count("<a ") == 21
    assert page.count('<a href="#left-out">') == 1


def test_a_card_says_what_is_known_of_a_session() -> None:
    row = run(
        1,
        20.0,
        **JUDGED,
        agent_id="builder",
        masque="Builder",
        tools_ok=1234,
        tools_failed=5,
        total_tokens=56_789,
        active_ms=45_600.0,
        quality_risk=True,
        disqualified=False,
    )
    other = card(card_id="card 2", reasoning="of another session")
    found = replace(compared([row]), cards=cards(card(reasoning="c 2.0\n\nIt guessed."), other))
    assert facts(found) == {
        "Model": "model-a (provider-a)",
        "Label": "code",
        "Task class": "debug",
        "Status": "completed",
        "Organization": "default",
        "Agent": "builder",
        "Masque": "Builder",
        "Started (UTC)": "2026-11-19 00:00",
        "Active time": "45.6 s",
        "Cost": "$0.50",
        "Tokens": "56,789",
        "Tool calls": "1,234 ok, 5 failed",
        "Disqualified": "no",
        "Quality risk": "yes, below the limit of p",
    }
    said = worst_details(found)
    assert "<strong>20.0</strong>" in said
    assert "profile p v3" in said
    assert "Scorecard: 20.0 of 100. On its scale, 0 to 10: c 2.0</p>" in said
    assert '<p class="small">It guessed.</p>' in said
    assert "of another session" not in said
    command = "evaluation-pipelines show"
    assert f"<code>{command} &#39;s1#baseline-1&#39;</code>" in said
    assert f"{command} 's1#baseline-1' |" in markdown_report(found).replace("\\", "")


def test_what_is_not_known_is_not_made_up() -> None:
    names = ("task_class", "status", "cost_usd", "total_tokens", "active_ms", "model", "provider")
    found = compared([run(1, 20.0, **dict.fromkeys(names, None))])
    unknown = {name for name, value in facts(found).items() if value == "unknown"}
    assert unknown == {
        "Task class",
        "Status",
        "Agent",
        "Active time",
        "Cost",
        "Tokens",
        "Tool calls",
        "Disqualified",
        "Quality risk",
    }
    assert facts(found)["Model"] == "unknown model"
    assert "Masque" not in facts(found)
    assert "Scorecard" not in worst_details(found)


def test_a_disqualified_session_says_by_what_and_whether_a_person_has_scored_it() -> None:
    out = run(1, 0.0, **JUDGED, disqualified=True, is_disqualified=True)
    rule = cards(card(disqualifier_triggered="rm -rf"))
    assert facts(replace(compared([out]), cards=rule))["Disqualified"] == "yes, by rm -rf"
    assert facts(compared([out]))["Disqualified"] == "yes, by an unknown rule"
    lifted = out | {"people_score": 60.0}
    assert facts(compared([lifted]))["Score by a person"] == "60.0"


def test_without_a_score_there_is_no_card() -> None:
    assert not worst_details(compared([run(1, None)]))
    assert "worst-sessions" not in html_page(compared([run(1, None)]))
