"""Reports in a bucket: the texts of a folder, replaced, forgotten, and errors of a store."""

from pathlib import Path

import obstore
from obstore.store import from_url

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.reporting.comparison_report import refresh_comparison, report_files
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.erasure.two_people import EMAIL
from evaluation_pipelines_tests.erasure.whole_installation import fill_ledger
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers.landing_bucket import Bucket
from evaluation_pipelines_tests.servers.s3 import SECRET
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.built_before import build_by

BOTH = ["model_comparison.html", "model_comparison.md"]


def write(workplace: Workplace, name: str, text: str) -> None:
    report_files(workplace.stores).put(name, text.encode(), shared=True, replaces=True)


def test_reports_in_a_bucket_are_those_of_a_folder_and_what_is_forgotten_goes(
    bucket: Bucket, tmp_path: Path
) -> None:
    with open_workplace(tmp_path, reports_dir=bucket.url) as workplace:
        fill_ledger(workplace)
        report = refresh_comparison(workplace.stores, NOW)
        assert report.addresses == tuple(f"{bucket.url}/{name}" for name in BOTH)
        first = [bucket.get(name) for name in BOTH]
        in_folder = workplace.settings.model_copy(update={"reports_dir": tmp_path / "reports"})
        local = Stores(in_folder, workplace.landing, workplace.lake, workplace.ledger)
        refresh_comparison(local, NOW)
        assert [(tmp_path / "reports" / name).read_bytes() for name in BOTH] == first

        write(workplace, "worst.html", f"the worst one: {EMAIL}")
        bucket.put("lake/a.html", b"of others")
        bucket.put(BOTH[0], EMAIL.encode())
        assert bucket.keys() == ["lake/a.html", *BOTH, "worst.html"]
        Forget(workplace.stores, "root", clock=lambda: NOW).run(Subject("person", "ada"))
        assert bucket.keys() == ["lake/a.html", *BOTH]
        assert [bucket.get(name) for name in BOTH] == first  # of no session, these are old


def test_a_browser_is_told_what_a_report_is(bucket: Bucket, tmp_path: Path) -> None:
    with open_workplace(tmp_path, reports_dir=bucket.url) as workplace:
        write(workplace, "a.html", "<p>é")
        write(workplace, "a.html", "<p>ü")
    store = from_url(bucket.url, client_options={"allow_http": True})
    found = obstore.get(store, "a.html")
    assert bytes(found.bytes()) == "<p>ü".encode()
    assert found.attributes["Content-Type"] == "text/html; charset=utf-8"


def test_a_bucket_that_refuses_is_said_and_the_database_is_published(
    program: Program, bucket: Bucket
) -> None:
    program.set("EVAL_REPORTS_DIR", bucket.url)
    build_by(program, session("a"))
    bucket.proxy.always = "403"
    ran = program("publish")
    assert ran.code == 4
    assert ran.out.startswith("published ")
    assert "error: the comparison of models could not be updated: " in ran.err
    assert "Its previous version, if any, stays published.\n" in ran.err
    assert f"{bucket.url}/model_comparison.html: access is refused" in ran.err
    assert SECRET not in ran.err
    bucket.proxy.always = None
    ran = program("publish")
    assert (ran.code, ran.err) == (0, "")
    assert f"report {bucket.url}/model_comparison.html\n" in ran.out
