"""A run that was sent: verified as it is, and with one change of each kind, each found."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from suite.manifests.datasets import DatasetManifest
from suite.protocol.plan import Plan
from suite.results import archive, checksums
from suite.runner.verification import age
from suite.runner.verification.verify import verify
from tests.runner.verification.made_run import edit, finished, reseal


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sent")


@pytest.fixture
def run(
    sent: Path,
    digits: tuple[DatasetManifest, Path],
    home: Path,
    quick: Callable[..., Plan],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A copy of a run of two trials and two repeats, which is made once."""
    if not list(sent.iterdir()):
        plan = replace(quick("jax", "mxnet", repeats=2), peak=True)
        made = finished(plan, *digits, tmp_path, monkeypatch)
        shutil.copytree(made, sent / made.name)
    (made,) = sent.iterdir()
    return Path(shutil.copytree(made, tmp_path / "copy" / made.name))


RECORD = "mxnet-hybrid-*-r1.json"


def lines(folder: Path) -> list[str]:
    return [str(each) for each in verify(folder).findings]


def name_of(folder: Path, pattern: str) -> str:
    """The first file of this pattern, relative to the folder."""
    return min(folder.glob(pattern)).relative_to(folder).as_posix()


def test_a_run_that_was_sent_as_one_file_verifies_in_an_empty_folder(
    run: Path, tmp_path: Path
) -> None:
    archive.write(run, tmp_path / "run.tar.gz")
    imported = archive.read(tmp_path / "run.tar.gz", tmp_path / "empty" / "results")
    found = verify(imported)
    assert found.findings == []
    assert (found.records, found.certificates) == (4, 2)
    # It is a script of the test, whose dataset is smaller.
    assert "worker: not the worker of this version of dlsuite" in map(str, found.notes)


def test_a_finished_run_holds_what_others_need_and_the_checksums_of_all_files(run: Path) -> None:
    sums = checksums.read(run)
    assert sums is not None and [*sums] == checksums.files(run)
    names = ("plan.json", "peak.yaml", "locks/jax.txt", "locks/mxnet.txt", "worker/__main__.py")
    assert set(names) < sums.keys()
    assert len([name for name in sums if name.startswith("certificates/")]) == 2


@pytest.mark.parametrize(
    "pattern",
    [
        "plan.json",
        "peak.yaml",
        RECORD,
        "certificates/*.json",
        "locks/mxnet.txt",
        "worker/__main__.py",
        "logs/*.events.jsonl",
        "logs/*.telemetry.jsonl",
        "logs/*.log",
        "SHA256SUMS",
    ],
)
def test_a_changed_byte_in_each_kind_of_file_is_found_and_named(run: Path, pattern: str) -> None:
    name = name_of(run, pattern)
    content = bytearray((run / name).read_bytes() or b"x")
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    found = lines(run)
    if name == "SHA256SUMS":  # a digest or a path is another one, or the line has no form
        assert found
    else:
        assert any(line.startswith(f"{name}: SHA-256: expected ") for line in found), found


@pytest.mark.parametrize("pattern", ["plan.json", RECORD, "certificates/*.json", "locks/mxnet.txt"])
def test_a_removed_file_is_found(run: Path, pattern: str) -> None:
    name = name_of(run, pattern)
    (run / name).unlink()
    assert f"{name}: file: expected as in SHA256SUMS, found none" in lines(run)


def test_an_added_record_is_found_and_a_note_of_the_user_is_not(run: Path) -> None:
    name = name_of(run, RECORD)
    added = name.replace("-r1", "-r7")
    shutil.copy(run / name, run / added)
    (run / "notes.txt").write_text("sent by mail")
    found = verify(run)
    assert f"{added}: file: expected none in SHA256SUMS, found a file" in map(str, found.findings)
    text = "notes.txt: dlsuite does not write it: nothing confirms what it says"
    assert text in map(str, found.notes)


def doubled(values: dict[str, Any]) -> None:
    values["samples_per_s"] *= 2


def doubled_in_all_blocks(values: dict[str, Any]) -> None:
    """Consistent in itself: only the events tell."""
    blocks = values["blocks"]
    blocks["duration_s"] = [each / 2 for each in blocks["duration_s"]]
    blocks["samples_per_s"] = [each * 2 for each in blocks["samples_per_s"]]
    values["times"] |= {name: values["times"][name] / 2 for name in ("measured_s", "warmup_s")}
    values["samples_per_s"] *= 2


def other_variant(values: dict[str, Any]) -> None:
    values["variant"] = "imperative"


def other_settings(values: dict[str, Any]) -> None:
    values["runtime"]["threads"] = "own"


def other_lock(values: dict[str, Any]) -> None:
    values["environment"]["lock_sha256"] = "f" * 64


def other_precision(values: dict[str, Any]) -> None:
    values["workload"]["precision"] = "bf16_mixed"


def less_arithmetic(values: dict[str, Any]) -> None:
    values["flops_per_sample"] //= 2


def other_memory(values: dict[str, Any]) -> None:
    values["memory"]["host_rss_peak_bytes"] = 1


def not_proven(values: dict[str, Any]) -> None:
    values["parity"]["proven"] = False


def other_engine(values: dict[str, Any]) -> None:
    values["engine"] = "docker"


def fewer_steps(values: dict[str, Any]) -> None:
    values["parity"]["steps"] = 99


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (doubled, "samples_per_s: expected 426.66"),
        (doubled_in_all_blocks, "samples_per_s: expected 426.66"),
        (other_variant, "trial_id: expected mxnet-imperative"),
        (other_settings, "runtime.threads: expected cores, found own"),
        (other_lock, "lock_sha256: expected "),
        (other_precision, "workload.precision: expected float32, found bf16_mixed"),
        (less_arithmetic, "flops_per_sample: expected "),
        (other_memory, "memory.host_rss_peak_bytes: expected 1000, found 1"),
        (other_engine, "engine: expected venv, found docker"),
        (not_proven, "parity.proven: expected True, found False"),
        (fewer_steps, "parity.steps: expected 10, found 99"),
    ],
)
def test_a_record_that_was_edited_together_with_its_checksum_is_found(
    run: Path, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    name = name_of(run, RECORD)
    edit(run, name, change)
    assert any(line.startswith(f"{name}: {found}") for line in lines(run)), lines(run)


def test_a_closing_proof_above_its_tolerance_is_not_proven(run: Path) -> None:
    def close(values: dict[str, Any]) -> None:
        closing = {"proven": True, "step": 3, "share": 1.5, "worst": {"loss": 2e-4}}
        values["parity"]["closing"] = closing

    name = name_of(run, RECORD)
    edit(run, name, close)
    assert f"{name}: parity.closing.proven: expected False, the share is 1.5, found True" in lines(
        run
    )


def test_a_closing_proof_that_was_removed_is_found(run: Path) -> None:
    name = name_of(run, RECORD)
    path = run / "logs" / name.replace(".json", ".events.jsonl")
    event = {"event": "closing", "monotonic_ns": 1, "step": 22, "steps": 2, "loss": 2.0}
    event["optimizer_steps"] = 24
    path.write_text(path.read_text() + json.dumps(event) + "\n")
    assert f"{name}: parity.closing.step: expected 22, found None" in lines(run)


def too_large(values: dict[str, Any]) -> None:
    values["errors"][3]["loss"] = 0.5


def wider(values: dict[str, Any]) -> None:
    values["tolerance"] = 1.0
    values["share"] /= 1e4


def of_other_worker(values: dict[str, Any]) -> None:
    values["of"]["worker"] = "f" * 64


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (too_large, "verdict: expected step 3: loss: relative error 5.0e-01 exceeds"),
        (wider, "tolerance: expected 0.0001, found 1.0"),
        (of_other_worker, "key: expected "),
    ],
)
def test_a_certificate_that_was_edited_together_with_its_checksum_is_found(
    run: Path, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    name = name_of(run, "certificates/*.json")
    edit(run, name, change)
    assert any(line.startswith(f"{name}: {found}") for line in lines(run)), lines(run)


def test_a_tolerance_in_which_anything_is_equal_is_found(run: Path) -> None:
    def widen(values: dict[str, Any]) -> None:
        values["raised"] = [{"logits": 9.0}] * len(values["errors"])
        values["share"] = 0.03  # that of the gradients, whose tolerance is the common one

    edit(run, name_of(run, "certificates/*.json"), widen)
    expected = "tolerance of the logits in step 0: expected at most 0.01, found 9"
    assert any(expected in line for line in lines(run)), lines(run)


def test_a_certificate_without_the_tolerances_of_its_steps_is_found(run: Path) -> None:
    def cut(values: dict[str, Any]) -> None:
        values["raised"] = values["raised"][:1] or [{}]

    name = name_of(run, "certificates/*.json")
    edit(run, name, cut)
    assert any(line.startswith(f"{name}: values: expected possible ones") for line in lines(run))


def test_a_plan_with_another_worker_lock_or_run_is_found(run: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["worker_sha256"] = "f" * 64
        values["locks"]["mxnet"] = "e" * 64
        values["runs"] = values["runs"][:-1]

    edit(run, "plan.json", change)
    found = "\n".join(lines(run))
    assert f"worker: SHA-256 of the source: expected {'f' * 64}" in found
    assert f"locks/mxnet.txt: SHA-256: expected {'e' * 64}" in found
    assert "plan.json: length of runs: expected 4, found 3" in found


def test_a_higher_peak_than_any_framework_reached_is_found(run: Path) -> None:
    text = (run / "peak.yaml").read_text()
    best = yaml.safe_load(text)["best"]["copy"]["work_per_s"]
    (run / "peak.yaml").write_text(text.replace(f"{best}", f"{best * 2}", 1))
    reseal(run, "peak.yaml")
    assert any(line.startswith("peak.yaml: best.copy: expected ") for line in lines(run))


def test_a_record_whose_values_are_impossible_is_found(run: Path) -> None:
    def stop_time(values: dict[str, Any]) -> None:
        values["blocks"]["duration_s"] = [0.0] * len(values["blocks"]["duration_s"])

    name = name_of(run, RECORD)
    edit(run, name, stop_time)
    assert any(line.startswith(f"{name}: values: expected possible ones") for line in lines(run))


def test_an_older_run_is_checked_as_far_as_it_holds_what_is_needed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As version 0.2 left it: no checksums, certificates, locks or worker."""
    monkeypatch.setattr(age, "is_recent", lambda folder: False)
    for folder in ("certificates", "locks", "worker"):
        shutil.rmtree(run / folder)
    (run / "SHA256SUMS").unlink()
    for folder in ("starts", "inputs"):
        shutil.rmtree(run / folder)
    found = verify(run)
    assert [str(each) for each in found.findings] == [
        "SHA256SUMS: file: expected the digests of a finished run, found none"
    ]
    notes = "\n".join(map(str, found.notes))
    for part in ("starts: not in the run", "certificates: not in", "locks/mxnet.txt: not in"):
        assert part in notes
    edit_alone = run / name_of(run, RECORD)
    edit_alone.write_text(
        edit_alone.read_text().replace('"samples_per_s": 426', '"samples_per_s": 526')
    )
    assert any("samples_per_s: expected 426.66" in line for line in lines(run))
