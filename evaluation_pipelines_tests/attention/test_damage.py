"""A damaged file of the lake: one failed check, an alert, and the first need of the overview."""

from time import monotonic, sleep

from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    QUARANTINE,
    Table,
)
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.lake_files import paths_of

_DAMAGED = "is damaged: its content does not have the checksum in the ledger"
SOON = NOW.replace(year=2026, month=6, day=2)
"""The day after the sessions: the checks look at the last seven."""


def damage(workplace: Workplace, table: Table) -> str:
    """Change a byte of the first file of a table; return its name."""
    path = paths_of(workplace.lake, table)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return str(path)


def test_a_service_finds_it_by_itself(workplace: Workplace) -> None:
    """The overview reads no events: a file of them is found by the look of the service."""
    fill(workplace, session("s1"))
    name = damage(workplace, AGENT_EVENTS)
    with Service(workplace, SOON).client() as client:
        deadline = monotonic() + 30
        while name not in (page := client.get("/").text) and monotonic() < deadline:
            sleep(0.1)
    assert name in page.partition('id="needs"')[2]


def test_damaged_lines_in_quarantine_leave_the_other_checks(
    workplace: Workplace,
) -> None:
    fill(workplace, session("s1"), b"broken\n")
    name = damage(workplace, QUARANTINE)
    answer = Service(workplace, SOON).client().get("/operations/doctor")
    assert answer.status_code == 200
    assert f"{name} is damaged" in answer.text
