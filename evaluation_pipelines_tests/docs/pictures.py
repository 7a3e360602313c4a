"""Makes the pictures of the documents: a chart, and screenshots of the interface at work.

Run it with ``python -m evaluation_pipelines_tests.docs.pictures``; it needs chromium. The interface
gets temporary folders, a free port, and is ended afterwards.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.charts import histogram_svg
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.pages.judge import before_and_after
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores, read_stores
from evaluation_pipelines_tests.defs.dagster_home import dagster_home
from evaluation_pipelines_tests.docs.documents import FOLDER, ROOT
from evaluation_pipelines_tests.docs.telemetry import generate, generated, midnight
from evaluation_pipelines_tests.judge_changes.change_builders import simulated
from evaluation_pipelines_tests.service.live_service import server_in_thread

PICTURES = FOLDER / "pictures"
PAGES = {
    "lineage": ("/asset-groups/", (1500, 700)),
    "scores": ("/assets/session_performance?view=partitions&partition=2026-11-20", (1300, 820)),
    "checks": (
        "/assets/agent_sessions?view=checks&checkDetail=sequences_have_no_gaps",
        (1200, 640),
    ),
}
"""Name of each screenshot, its page, and the size of the window."""

SERVICE_PAGES = {"overview": ("/", (1100, 580)), "session": ("/sessions/{}/score", (1100, 700))}
"""Name of each screenshot of the service, its page, and the size of the window."""

REPORT_SIZE = (1040, 650)

_CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=20000",
]


def composites_svg() -> str:
    """The chart that the interface shows with each date, of all generated sessions."""
    with read_stores(Settings(data_dir=generated(midnight()))) as stores:
        scores = stores.lake.select(SESSION_PERFORMANCE)
    composites = scores["composite"].drop_nulls().sort().to_list()
    return histogram_svg(composites, "composite", limits=(0, 10), marks={"review": 4, "keep": 7})


def judge_change_svg() -> str:
    """A judge change that was simulated: that of the demo has few anchors."""
    svg = before_and_after(simulated(4.0, 8.0))
    assert svg is not None
    return svg


def comparison_page() -> str:
    """The report that compares models, of all generated sessions."""
    today = midnight()
    with open_stores(Settings(data_dir=generated(today))) as stores:
        return html_page(compare_models(stores, Question(*last_days(today)), today))


def main() -> None:
    """Make all of them anew."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "composites.svg").write_text(composites_svg(), encoding="utf-8")
    (PICTURES / "judge-change.svg").write_text(judge_change_svg(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.html"
        report.write_text(comparison_page(), encoding="utf-8")
        screenshot(report.as_uri(), PICTURES / "comparison.png", REPORT_SIZE)
    take_service_pages()
    with tempfile.TemporaryDirectory() as folder, interface(Path(folder)) as address:
        for name, (page, size) in PAGES.items():
            screenshot(f"{address}{page}", PICTURES / f"{name}.png", size)


def take_service_pages() -> None:
    """Draw pages of the service: of all generated sessions, and of the best one with texts."""
    today = midnight()
    with open_stores(Settings(data_dir=generated(today))) as stores:
        shown = stores.lake.select(AGENT_SESSIONS).filter(content_level="full", status="completed")
        judged = stores.lake.select(SESSION_EVALUATIONS).drop_nulls("judge_total")
        scores = judged.join(shown, on=SESSION_KEY, how="semi")
        best = scores.sort("judge_total", "session_key", descending=True)["session_key"][0]
        installation = Installation(stores, KeyRing(stores.ledger), lambda: today)
        with server_in_thread(create_app(installation)) as port:
            address = f"http://127.0.0.1:{port}"
            waiting = HTTPConnection("127.0.0.1", port, timeout=60)
            is_ready = False
            while not is_ready:  # until models and agents are compared
                waiting.request("GET", "/")
                is_ready = b"data-reload-after" not in waiting.getresponse().read()
                time.sleep(0.2)
            for name, (page, size) in SERVICE_PAGES.items():
                url = f"{address}{page.format(quote(best, safe=''))}"
                screenshot(url, PICTURES / f"{name}.png", size)


@contextmanager
def interface(folder: Path) -> Iterator[str]:
    """``dg dev`` over generated telemetry, when it has read, built and published it."""
    generate(folder / "data" / "landing", midnight())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [Path(sys.prefix) / "bin" / "dg", "dev", "--host", "127.0.0.1", "--port", str(port)],
        cwd=ROOT,
        env=os.environ
        | {
            "DAGSTER_HOME": str(dagster_home(folder / "dagster")),
            "EVAL_DATA_DIR": str(folder / "data"),
            "EVAL_START_DATE": "2026-11-01",
            "VIRTUAL_ENV": sys.prefix,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_for(folder / "data" / "analytics.duckdb", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what has not ended by itself


def screenshot(address: str, picture: Path, size: tuple[int, int]) -> None:
    """Let chromium draw a page."""
    window = f"--window-size={size[0]},{size[1]}"
    subprocess.run(
        [*_CHROMIUM, window, f"--screenshot={picture}", address],
        check=True,
        capture_output=True,
        timeout=120,
    )


def _wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 600
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"dg dev has not made {file.name}; run `make dev` to see why")
        time.sleep(2)
    time.sleep(10)  # until the run that made it has ended


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        sys.exit("chromium is needed to make pictures of the interface")
    main()
