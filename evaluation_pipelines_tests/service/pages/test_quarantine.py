"""Lines that could not be read: where they are and why, for those who see all organizations."""

from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.world import session


def test_what_could_not_be_read_is_listed_with_its_place_and_reason(service: Service) -> None:
    client = service.client()
    assert client.get("/operations/quarantine").text.count("No unreadable lines.") == 2
    good = session("s1")
    fill(service.workplace, good, b"<img src=x onerror=1>\n")
    assert 'href="/operations/quarantine?since=2026-11-25"' in client.get("/").text
    page = client.get("/operations/quarantine").text
    assert f"at byte {len(good):,}, 21 bytes<" in page
    assert 'data-name="Lines">1<' in page
    assert "not JSON: " in page
    assert "logs.jsonl" in page
    assert f":{len(good)}</code>" in page
    assert "<img" not in page


def test_equal_lines_are_all_counted(service: Service) -> None:
    client = service.client()
    fill(service.workplace, session("s1"), b"broken\n" * 500, b"worse\n")
    page = client.get("/").text
    assert "501 unreadable lines</a>" in page
    listed = client.get("/operations/quarantine?since=2026-11-24").text
    assert "Telemetry since 2026-11-24: 501</h2>" in listed
    assert 'data-name="Lines">500<' in listed
    assert "501 unreadable lines</a>" in client.get("/operations/doctor").text


def test_lines_are_counted_by_what_is_wrong_with_them(service: Service) -> None:
    not_json = (b"broken\n" * 2, b"worse\n", b"worst, {\n")
    fill(service.workplace, session("s1"), *not_json, b"\xff\n", b'{"longer": "\xff"}\n')
    page = service.client().get("/operations/quarantine").text
    assert "<p>not JSON (4), not UTF-8 (2).</p>" in page
