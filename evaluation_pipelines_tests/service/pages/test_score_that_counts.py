"""What pages show of a score: its source and its reason."""

import csv
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.service.answers import A1, answering
from evaluation_pipelines_tests.service.clients import form_token
from evaluation_pipelines_tests.service.pages.hostile import KEY
from evaluation_pipelines_tests.service.scoring_service import ScoringService

A1_PAGE = f"/sessions/{quote(A1, safe='')}"
ATTACKED = f"/sessions/{quote(KEY, safe='')}"


def test_a_score_by_a_person_counts_at_once(hostile: ScoringService) -> None:
    page = hostile.client().get(f"{ATTACKED}/score").text
    assert re.search(r'Score <strong class="score red" title="red">41.5</strong>', page)
    assert ". Automatic score: " in page[: page.index("Judge score")]
    assert ">64</strong>" in page  # of the judge
    assert "no verdict" in page  # of the scoring before


def test_a_list_and_a_session_say_which_of_several_scores_counts(hostile: ScoringService) -> None:
    said = "The score (0-100) is the first available of: human, profile, judge, composite x 10."
    client = hostile.client()
    listed = client.get("/sessions").text
    assert said in listed
    for name in ("Score", "judge", "composite"):
        assert re.search(rf'<a href="/sessions\?sort=-{name.lower()}">{name}</a>', listed)
    assert said in client.get(f"{ATTACKED}/score").text


@pytest.mark.parametrize("view", ["", "/technical"])
def test_the_reason_of_a_person_is_next_to_the_score_for_who_reads_texts(
    hostile: ScoringService, view: str
) -> None:
    page = hostile.client().get(f"{ATTACKED}{view}").text
    reason = page.partition('<p class="small">Scored by ')[2].partition("</p>")[0]
    assert ". Automatic score: " in reason
    assert "why&lt;script&gt;" in reason


def test_the_list_of_what_people_scored_has_their_words_for_who_reads_texts(
    tmp_path: Path,
) -> None:
    with answering(tmp_path) as service:
        operator, reader = (service.key(role, "acme") for role in (Role.OPERATOR, Role.READER))
        client = service.client(operator)
        sent = form_token(client, f"{A1_PAGE}/score") | {"score": "7", "annotator": "Ann"}
        client.post(f"{A1_PAGE}/override", data={**sent, "reason": "too early"})
        client.post(f"{A1_PAGE}/override", data={**sent, "reason": "it guessed"})

        (link,) = re.findall(r'href="([^"]+)">Human-scored</a>', client.get("/sessions").text)
        seen, unread = (service.client(key).get(unescape(link)).text for key in (operator, reader))

    said = "human score 7.0 (automatic: 90.0)"
    assert why_of(seen) == [f"{said} “it guessed”"]
    assert why_of(unread) == [said]


def test_a_list_by_score_says_how_many_share_the_lowest(tmp_path: Path) -> None:
    with answering(tmp_path) as service:
        client = service.client(service.key(Role.READER))
        rows = list(csv.DictReader(client.get("/sessions.csv").text.splitlines()))
        scores = sorted(float(row["effective_100"]) for row in rows if row["effective_100"])
        assert scores.count(scores[0]) > 1
        said = f"{scores.count(scores[0])} with the same lowest score, newest first"
        assert said in client.get("/sessions?sort=score").text
        assert "lowest score, newest" not in client.get("/sessions?sort=-score").text


def why_of(page: str) -> list[str]:
    """Return the text of the cells that say why a score is low."""
    cells = re.findall(r'<td class="why"[^>]*>(.*?)</td>', page, re.DOTALL)
    return [re.sub("<[^>]+>", "", each).strip() for each in cells]
