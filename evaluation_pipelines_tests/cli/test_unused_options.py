"""An option that would have no effect is refused."""

import pytest

from evaluation_pipelines_tests.program import Program

ID = "5f3c2c1e-0000-5000-8000-000000000000"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("compare --outcome merged --alone", "--alone: not for compare --outcome"),
        ("compare --outcome merged --within repository", "--within: not for compare --outcome"),
        ("compare --outcome merged --margin 3", "--margin: not for compare --outcome"),
        ("agent-config claude-code --command --key k", "--key: not for --command"),
        ("agent-config claude-code --command --transcripts", "--transcripts: not for --command"),
        ("agent-config claude-code --transcripts --texts", "--texts: not for --transcripts"),
        ("reputation list scout --limit 3", "--limit: not for reputation list AGENT"),
        (
            f"reputation list --identity {ID} --organization o",
            "--organization: not for reputation list --identity",
        ),
        ("reputation list --tables --limit 3", "--limit: not for reputation list --tables"),
        (
            f"reputation retract evaluations e1 --agent a --identity {ID}",
            "--identity: not for evaluations",
        ),
        (
            f"reputation retract signals {ID} --agent a --identity {ID}",
            "give either --agent or --identity",
        ),
        ("quarantine list 1234 --limit 3", "--limit: not for quarantine list ENTRY"),
        ("quarantine list 1234 --entries", "--entries: not for quarantine list ENTRY"),
        ("judge validate --last --no-attacks", "--attacks: not for judge validate --last"),
        ("judge validate --last --max-cost-usd 1", "--max-cost-usd: not for judge validate --last"),
        ("judge changes --anchors --format json", "--format: not for judge changes --anchors"),
        ("books 2026-06-01 --model m", "--model: not for books without --sessions"),
        ("show s --transcript --format csv", "--transcript: not for --format csv"),
        ("forget --user u --dry-run --rewrite-landing", "--rewrite-landing: not for forget"),
        (
            "experiment create e --arms a,b --unit session --days 9 --start 2030-01-01..2030-01-03",
            "--start 2030-01-01..2030-01-03 is not a date",
        ),
    ],
)
def test_it_is_a_usage_error_that_names_the_option(
    program: Program, command: str, said: str
) -> None:
    ran = program(*command.split())
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
