from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from suite.errors import ManifestError, UsageError
from suite.manifests import catalog
from suite.manifests.datasets import DatasetManifest
from suite.manifests.devices import Devices
from suite.manifests.files import Kind, names
from suite.manifests.frameworks import FrameworkManifest, Unsupported
from suite.manifests.suites import SuiteManifest
from suite.manifests.workloads import Workload
from suite.models import MODELS
from suite.paths import LOCKS, MANIFESTS

QUICK = (MANIFESTS / "suites" / "quick.yaml").read_text(encoding="utf-8")
PYTORCH = (MANIFESTS / "frameworks" / "pytorch.yaml").read_text(encoding="utf-8")
MNIST = (MANIFESTS / "datasets" / "mnist.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["framework", "dataset", "suite", "track"])
def test_every_manifest_of_the_repository_loads(kind: Kind) -> None:
    loader: Callable[[str], Any] = {
        "framework": catalog.framework,
        "dataset": catalog.dataset,
        "suite": catalog.suite,
        "track": catalog.tracks().__getitem__,
    }[kind]
    assert names(kind)
    for name in names(kind):
        assert loader(name).name == name


def test_every_lock_of_a_manifest_exists() -> None:
    for name in names("framework"):
        for lock in catalog.framework(name).locks:
            assert (LOCKS / name / lock).is_file()


def test_an_unknown_key_is_reported_with_its_line_and_the_nearest_key(
    refused: Callable[..., str],
) -> None:
    text = QUICK.replace("repeats:", "repeets:")
    line = [line[:8] for line in text.splitlines()].index("repeets:") + 1
    assert refused(text) == f"bad.yaml:{line}: unknown key 'repeets'; nearest: 'repeats'"


def test_an_unknown_nested_key_is_compared_with_the_keys_of_its_level(
    refused: Callable[..., str],
) -> None:
    message = refused(QUICK.replace("learning_rate", "learning_rates"))
    assert message.endswith("unknown key 'learning_rates'; nearest: 'learning_rate'")
    message = refused(MNIST.replace("package:", "packages:"), DatasetManifest)
    assert message.endswith("unknown key 'packages'; nearest: 'package'")


def test_an_invalid_value_is_refused(refused: Callable[..., str]) -> None:
    assert "workloads.0.batch_size: Input should be greater than 0" in refused(
        QUICK.replace("batch_size: 64", "batch_size: 0")
    )
    assert "unknown model 'lenett'; nearest: 'lenet'" in refused(
        QUICK.replace("model: lenet", "model: lenett")
    )
    assert "repeats.at_most: 8 is less than at_least" in refused(
        QUICK.replace("at_least: 8", "at_least: 9")
    )
    assert "tracks.0: unknown track 'equl'; nearest: 'equal'" in refused(
        QUICK.replace("[equal]", "[equl]")
    )
    assert "not YAML" in refused("name: [")
    assert "valid dictionary" in refused("")


def test_a_missing_file_and_an_unknown_name_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        catalog.suite(str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError, match="unknown suite 'quik'; nearest: 'quick'"):
        catalog.suite("quik")
    with pytest.raises(
        UsageError,
        match="unknown dataset 'zzz'; known: cifar10, imagenet, mnist, moby_dick, tabular",
    ):
        catalog.dataset("zzz")


def test_a_frameworks_track_needs_a_known_variant_track_and_device(
    refused: Callable[..., str],
) -> None:
    def changed(old: str, new: str) -> str:
        assert old in PYTORCH
        return refused(PYTORCH.replace(old, new), FrameworkManifest)

    unknown = changed("cuda: {variant: compiled", "cuda: {variant: compile")
    assert "tracks: tuned: unknown variant 'compile'; nearest: 'compiled'" in unknown
    assert "unknown track 'tund'; nearest: 'tuned'" in changed("tuned:", "tund:")
    assert "tuned.gpu" in changed("    cpu: {variant", "    gpu: {variant")


def test_the_default_variant_is_the_first_where_the_track_names_none() -> None:
    jax, pytorch = catalog.framework("jax"), catalog.framework("pytorch")
    assert jax.default_variant("tuned", "cuda:1", "train") == "jit"
    assert pytorch.default_variant("default", "cpu", "infer") == "eager"
    assert pytorch.default_variant("tuned", "cuda:1", "train") == "compiled"
    tuned = {"cudnn_benchmark": True, "fused_optimizer": True}
    assert pytorch.in_track("tuned", "cuda:1").settings == tuned


def test_an_unsupported_combination_matches_its_fields_and_anything_else() -> None:
    keras = catalog.framework("keras")

    def reason(manifest: FrameworkManifest = keras, **changes: Any) -> str | None:
        of_trial = {"variant": "jax", "layers": {"dense"}}
        of_trial |= {name: changes.pop(name) for name in of_trial if name in changes}
        devices = Devices.parse(changes.pop("device", "cpu"))
        workload = catalog.suite("quick").workloads[0].model_copy(update=changes)
        return manifest.unsupported_reason(**of_trial, devices=devices, workload=workload)

    assert "CUDA" in str(reason(variant="tensorflow", device="cuda"))
    assert reason(variant="tensorflow") is None
    assert reason(device="cuda") is None
    assert reason(input="loader") is None
    assert "several devices" in str(reason(device="cpu:2"))
    assert reason(device="cpu:1") is None
    assert reason(precision="bf16_mixed") is None
    assert "accumulate" in str(reason(precision="bf16_mixed", variant="tensorflow"))
    assert "photographs" in str(reason(catalog.framework("jax"), variant="jit", input="loader"))
    changed = keras.model_copy(update={"unsupported": (Unsupported(layer="lstm", reason="none"),)})
    assert reason(changed, layers={"lstm", "dense"}) == "none"
    assert reason(changed) is None
    trains = keras.model_copy(update={"unsupported": (Unsupported(mode="infer", reason="none"),)})
    assert reason(trains, mode="infer", scenario="offline") == "none"
    assert reason(trains) is None
    own = Unsupported(scenario="server", reason="none")
    serves = keras.model_copy(update={"unsupported": (own,)})
    assert reason(serves, mode="infer", scenario="server") == "none"
    assert reason(serves, mode="infer", scenario="offline") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario": None}, "scenario is missing, mode is infer"),
        ({"query_samples": None}, "query_samples is missing, mode is infer"),
        ({"scenario": "server"}, "latency_bound_s is missing"),
        ({"latency_bound_s": 1.0}, "latency_bound_s has no meaning here"),
        ({"optimizer": {"name": "sgd", "learning_rate": 1}}, "optimizer has no meaning here"),
        ({"precision": "bf16_mixed"}, "precision float32"),
        ({"epochs": 1}, "epochs 0"),
        ({"batch_size": 2, "scenario": "single_stream"}, "single_stream has batch_size 1"),
        ({"batch_size": 2, "accumulate": 2}, "accumulate is of training"),
        ({"mode": "train"}, "optimizer is missing, mode is train"),
    ],
)
def test_a_workload_of_inference_needs_its_own_fields(
    changes: dict[str, Any], message: str
) -> None:
    values = {
        "model": "lenet",
        "dataset": "mnist",
        "mode": "infer",
        "scenario": "offline",
        "batch_size": 1,
        "query_samples": 10,
    }
    assert Workload.model_validate(values).epochs == 0
    with pytest.raises(ValidationError, match=message):
        Workload.model_validate(values | changes)


@pytest.mark.parametrize(
    ("text", "good"), [("1h30m", True), ("90m", True), ("1x", False), ("", False)]
)
def test_the_limit_of_time_of_a_suite_is_a_duration(text: str, good: bool) -> None:
    values = catalog.suite("quick").model_dump() | {"max_time": text}
    if good:
        assert SuiteManifest.model_validate(values).max_time == text
    else:
        with pytest.raises(ValidationError, match="max_time"):
            SuiteManifest.model_validate(values)


def test_every_framework_states_the_space_of_its_environment() -> None:
    for each in catalog.frameworks().values():
        assert each.disk_mib.cpu if each.locks else each.disk_mib.cuda


def test_a_suite_runs_unlisted_models_with_its_default_workload() -> None:
    suite = catalog.suite("zoo")
    without = suite.model_copy(update={"workloads": suite.workloads[:1]})
    models = [workload.model for workload in without.all_workloads]
    assert models[0] == suite.workloads[0].model and sorted(models) == sorted(MODELS)
    assert {each.dataset for each in without.all_workloads[1:]} == {"synthetic"}
    alone = without.model_copy(update={"default_workload": None})
    assert alone.all_workloads == suite.workloads[:1]


TRAINING = {"model": "lenet", "dataset": "mnist", "batch_size": 64}
SGD = {"name": "sgd", "learning_rate": 0.1}


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ({"shape": "cosine"}, "shape cosine needs total_steps"),
        ({"shape": "steps", "step_size": 3, "total_steps": 9}, "shape steps has no total_steps"),
        ({"shape": "linear", "total_steps": 5, "warmup_steps": 5}, "more than warmup_steps"),
        ({"shape": "constant"}, "needs warmup_steps"),
    ],
)
def test_a_schedule_has_the_numbers_of_its_shape(schedule: dict[str, Any], problem: str) -> None:
    optimizer = {"name": "sgd", "learning_rate": 0.1, "schedule": schedule}
    with pytest.raises(ValidationError, match=problem):
        Workload.model_validate({**TRAINING, "optimizer": optimizer})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"class_weights": [1, 0]}, "greater than 0"),
        ({"class_weights": [1, 2], "loss": "huber"}, "of training with cross_entropy"),
        ({"class_weights": [1, 2], "label_smoothing": 0.1}, "exclude each other"),
    ],
)
def test_class_weights_are_positive_and_alone(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Workload.model_validate({**TRAINING, "optimizer": SGD, **changes})


def test_class_weights_are_in_the_name_of_a_workload() -> None:
    few = Workload.model_validate({**TRAINING, "optimizer": SGD, "class_weights": [1, 2.5]})
    assert few.recipe == {"class_weights"} and few.way.endswith(" class weights 1/2.5")
    many = [
        Workload.model_validate(
            {**TRAINING, "optimizer": SGD, "class_weights": [1.0] * 999 + [last]}
        ).way
        for last in (1.0, 2.0)
    ]
    assert many[0] != many[1] and max(map(len, many)) < 60


def test_micro_batches_are_equal_parts_of_a_batch() -> None:
    trained = {**TRAINING, "optimizer": SGD, "batch_size": 32}
    workload = Workload.model_validate({**trained, "accumulate": 4})
    assert workload.micro_batch_size == 8 and workload.recipe == {"accumulate"}
    assert workload.way == "sgd 0.1 in 4 micro-batches"
    with pytest.raises(ValidationError, match="batch_size 32 is not divisible by accumulate 5"):
        Workload.model_validate({**trained, "accumulate": 5})


def test_a_recipe_is_in_the_name_of_a_workload() -> None:
    schedule = {"shape": "cosine", "warmup_steps": 3, "total_steps": 9}
    optimizer = {"name": "adamw", "learning_rate": 0.1, "exempt_vectors": True, "ema_decay": 0.5}
    found = Workload.model_validate({**TRAINING, "optimizer": {**optimizer, "schedule": schedule}})
    assert found.recipe == {"schedule", "exempt_vectors", "ema_decay"}
    assert found.way == (
        "adamw 0.1 cosine to step 9 (warm-up 3) vectors do not decay averaged by 0.5"
    )
