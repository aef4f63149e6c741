"""The folder of pages about all runs."""

import re
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.manifests.tracks import configuration
from suite.report.html import site
from tests.report.made_inference import made_inference
from tests.report.made_run import CONFIGURATIONS, made_run


def test_the_site_lists_every_run_and_every_workload_and_all_links_lead_to_a_page(
    tmp_path: Path, home: Path
) -> None:
    folder = made_run(tmp_path / "results").rename(tmp_path / "results" / "before")
    written = site.write(tmp_path / "results", tmp_path / "site")
    assert len(written) == len(set(written)) == 3
    pages = {path: path.read_text() for path in written}
    for path, text in pages.items():
        for address in re.findall(r'href="([^"#]+\.html)"', text):
            assert (path.parent / address).resolve() in pages, (path, address)
    listed = pages[tmp_path / "site" / "index.html"]
    assert folder.name in listed and listed.count('scope="row"><a href="workloads/') == 1


def test_the_page_of_a_workload_has_a_figure_for_each_device_set_and_a_row_for_each_trial(
    tmp_path: Path, home: Path
) -> None:
    made_run(tmp_path / "results")
    site.write(tmp_path / "results", tmp_path / "site")
    (page,) = (tmp_path / "site" / "workloads").glob("lenet-*.html")
    text = page.read_text()
    assert text.count("<figure") == text.count('role="img"') == 3  # cpu, cpu:1, cpu:2
    assert all(f">{configuration(*name)}</td>" in text for name in CONFIGURATIONS)


def test_without_records_there_is_no_site(tmp_path: Path, home: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"):
        site.write(tmp_path, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_workloads_of_inference_have_pages_with_their_latencies(tmp_path: Path, home: Path) -> None:
    made_inference(tmp_path / "results")
    written = site.write(tmp_path / "results", tmp_path / "site")
    names = {path.stem for path in written if path.parent.name == "workloads"}
    assert "lenet-mnist-infer-single-stream-1-float32-host" in names
    assert "lenet-mnist-infer-server-0-01-1-float32-host" in names
    assert sum("offline" in name for name in names) == 6
    latency = (
        tmp_path / "site" / "workloads" / "lenet-mnist-infer-single-stream-1-float32-host.html"
    )
    text = latency.read_text()
    assert "p50 latencies with their 95 % intervals" in text and ">304 µs</td>" in text
    assert "<h1>lenet on mnist, infer, batch 1, float32, single_stream</h1>" in text


def test_a_run_that_cannot_be_read_is_named_and_left_out(tmp_path: Path, home: Path) -> None:
    folder = made_run(tmp_path / "results")
    damaged = tmp_path / "results" / "damaged"
    damaged.mkdir()
    (damaged / "pytorch-eager-r0.json").write_text("{")
    site.write(tmp_path / "results", tmp_path / "site")
    listed = (tmp_path / "site" / "index.html").read_text()
    assert folder.name in listed and "damaged" in listed
    assert [path.stem for path in (tmp_path / "site" / "runs").iterdir()] == [folder.name]
