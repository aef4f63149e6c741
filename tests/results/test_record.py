import json
from pathlib import Path

import pytest

from suite.errors import ResultsError
from suite.manifests import catalog
from suite.manifests.workloads import Measure, Repeats
from suite.results import record, store
from suite.results.record import Block, Closing, Parity, Record

KEYS = """schema_version run_id suite trial_id framework framework_version variant track
conditions model parameters flops_per_sample bytes_per_sample dataset data_origin input
mode batch_size precision optimizer device repeat seed measure repeats turns steady
status error engine image_id environment times blocks samples_per_s steps optimizer_steps
epochs memory telemetry parity log"""


CLOSED = Closing(proven=True, step=100, steps=2)
PROVEN = Parity(proven=True, steps=10, closing=CLOSED)


def record(**changes: object) -> Record:
    values: dict[str, object] = {
        "run_id": "r",
        "suite": "quick",
        "trial_id": "pytorch-eager",
        "framework": "pytorch",
        "variant": "eager",
        "track": "equal",
        "runtime": catalog.runtime_settings("pytorch", "equal", "cpu"),
        "model": "lenet",
        "flops_per_sample": 1,
        "bytes_per_sample": 1,
        "dataset": "mnist",
        "data_origin": "made here",
        "input": "host",
        "mode": "train",
        "batch_size": 64,
        "precision": "float32",
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
        "device": "cpu",
        "repeat": 0,
        "seed": 1,
        "measure": Measure(),
        "repeats": Repeats(at_least=3, at_most=3),
        "turns": 1,
        "status": "ok",
        "engine": "venv",
        "environment": {"cpus": [0, 1]},
        "parity": PROVEN,
    }
    return Record.model_validate(values | changes)


def test_a_record_is_one_whole_file_with_the_promised_keys(tmp_path: Path) -> None:
    with store.run_folder(tmp_path / "results", "quick") as folder:
        folder.append(record())
        folder.append(record(repeat=1))
    files = sorted(folder.path.glob("*.json"))
    assert [file.name for file in files] == ["pytorch-eager-r0.json", "pytorch-eager-r1.json"]
    assert list(json.loads(files[0].read_text())) == KEYS.split()
    assert store.read(folder.path)[1].repeat == 1
    assert not [path for path in folder.path.iterdir() if path.name.endswith(".part")]


def test_the_arithmetic_is_what_the_framework_said_it_was() -> None:
    def on_gpu(precision: str, *, tf32: bool) -> str:
        told = {"worker": {"device": {"tf32": tf32}}}
        return record(precision=precision, environment=told).arithmetic

    assert on_gpu("float32", tf32=True) == "tf32"
    assert on_gpu("float32", tf32=False) == "float32"
    assert on_gpu("bfloat16", tf32=True) == "bfloat16"
    assert record().arithmetic == "float32"


def test_latest_points_at_the_newest_run_that_has_a_record(tmp_path: Path) -> None:
    for _ in range(2):
        with store.run_folder(tmp_path, "quick") as folder:
            folder.append(record())
    assert (tmp_path / "latest").resolve() == folder.path
    with store.run_folder(tmp_path, "quick") as empty:
        pass
    assert (tmp_path / "latest").resolve() == folder.path
    assert not empty.path.exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ResultsError, match="cannot be written: Not a directory"),
        store.run_folder(tmp_path / "file" / "results", "quick"),
    ):
        pass


def test_what_is_no_record_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="has no records"):
        store.read(tmp_path)
    file = tmp_path / "x.json"
    file.write_text("{")
    with pytest.raises(ResultsError, match=r"x\.json: not a record"):
        store.read(tmp_path)
    values = json.loads(record().model_dump_json())
    file.write_text(json.dumps(values | {"schema_version": 99}))
    with pytest.raises(ResultsError, match="schema version 99, this is 7"):
        store.read(tmp_path)
    del values["framework"]
    file.write_text(json.dumps(values))
    with pytest.raises(ResultsError, match="framework: Field required"):
        store.read(tmp_path)


def test_records_of_the_version_before_are_read(tmp_path: Path) -> None:
    block = Block(warmup=False, monotonic_ns=1, steps=1, duration_s=1, samples_per_s=1)
    values = json.loads(record(blocks=(block,)).model_dump_json())
    del values["steps"], values["optimizer_steps"], values["parity"]["closing"]
    for name in ("step", "loss", "loss_wait_s"):
        del values["blocks"][0][name]
    (tmp_path / "x.json").write_text(json.dumps(values | {"schema_version": 6}))
    (old,) = store.read(tmp_path)
    assert old.parity.proven and old.parity.closing is None and old.blocks == (block,)


def test_a_trial_is_proven_by_its_certificate_and_by_a_closing_proof() -> None:
    certified = Parity(proven=True, steps=10, certificate="c")
    closed = record(parity=certified.closed(CLOSED))
    failed = record(parity=certified.closed(Closing(proven=False, step=1, reason="loss is off")))
    plain = record(repeat=1, parity=certified)
    assert records.parity_of([closed, plain]).proven
    assert records.parity_of([failed, plain]) == failed.parity and not failed.parity.proven
    assert failed.parity.reason == "loss is off"
    alone = records.parity_of([plain])
    assert not alone.proven and "closing proof" in str(alone.reason)
    uncertified = Parity(proven=False, reason="step 3").closed(CLOSED)
    assert not uncertified.proven and uncertified.reason == "step 3"
