"""Sources that serve something else, and a disk that is full."""

import shutil
from pathlib import Path

import pytest

from suite.datasets import library, sources
from suite.errors import DataError
from suite.manifests.datasets import DatasetManifest, HttpsSource
from suite.web import Limits
from tests.conftest import serving

Digits = tuple[DatasetManifest, Path]


def test_a_login_page_is_named_and_the_next_source_is_tried(tmp_path: Path, digits: Digits) -> None:
    dataset, files = digits
    login = tmp_path / "login"
    shutil.copytree(files, login)
    (login / "train-images-idx3-ubyte").write_bytes(b"<html><title>Log in</title>")
    raw = tmp_path / "done"
    raw.mkdir()
    with serving(tmp_path) as url:
        both = tuple(HttpsSource(kind="https", url=f"{url}/{each}") for each in ("login", "raw"))
        first = dataset.model_copy(update={"sources": both[:1]})
        with pytest.raises(DataError, match="a web page, 'Log in', instead of the file"):
            sources.obtain(first, raw, None, lambda text: None)
        second = dataset.model_copy(update={"sources": both})
        assert sources.obtain(second, raw, None, lambda text: None) == both[1].url


def test_all_files_of_a_source_have_one_limit_of_time(tmp_path: Path, digits: Digits) -> None:
    dataset, files = digits
    with serving(files) as url:
        source = HttpsSource(kind="https", url=url)
        late = dataset.model_copy(update={"sources": (source,)})
        with pytest.raises(DataError, match="limit of time, after 0 bytes"):
            sources.obtain(late, tmp_path, None, print, limits=Limits(whole_s=-1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_no_fault_of_the_source(
    home: Path, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, files = digits
    name = dataset.files["train_images"].name
    fetch = sources._fetch

    def full(url: str, target: Path, *others: object) -> None:
        if target.name.startswith(name):
            target.symlink_to("/dev/full")
        fetch(url, target, *others)

    monkeypatch.setattr(sources, "_fetch", full)
    with serving(files) as url:
        source = HttpsSource(kind="https", url=url)
        served = dataset.model_copy(update={"sources": (source, source)})
        with pytest.raises(DataError, match=r"home/datasets: No space left on device \(") as caught:
            library.prepare(served, notify=lambda text: None)
    assert "DLSUITE_HOME" in caught.value.hint
    assert list((home / "datasets").iterdir()) == []
