"""The models that ONNX Runtime and OpenVINO run: their logits, and their optimized forms."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.worker.protocol import Trial
from tests.worker.conftest import in_environment

FRAMEWORKS = ("onnxruntime", "openvino")
BATCH_SIZE = 3
# All kinds of layers are in the first ones and gpt_tiny; the others are real models.
# ResNet-50 takes smaller images than its own, to save time.
NAMES = (
    *("lenet", "every_layer", "every_sequence", "every_mobile", "every_window", "every_channel"),
    *("every_decoder", "every_attention", "every_swin", "every_text", "every_padded"),
    *("every_response", "unet_small", "gpt_tiny", "vit_tiny_cifar10", "resnet50"),
)

PREDICT = """
import importlib, sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from suite.worker.protocol import Trial, read_statistics, read_weights

framework, precision, *folders = sys.argv[1:]
module = importlib.import_module(f"suite.worker.frameworks.{framework}.inference")
for folder in map(Path, folders):
    trial = replace(Trial.read(folder), framework=framework, precision=precision)
    predictor = module.Predictor(trial, read_weights(trial), read_statistics(trial))
    batches = np.load(folder / "batches.npy")
    if batches.dtype != np.int32:
        batches = batches.astype(trial.dtype)
    first, second = map(predictor.predict, batches)
    assert first.flags.c_contiguous and first.dtype == trial.dtype
    np.save(folder / f"{framework}.npy", np.stack([first, second]))
print("predicted")
"""

OPERATORS = """
import sys
from pathlib import Path
import onnx, onnxruntime
from suite.worker import onnx_model
from suite.worker.frameworks.onnxruntime.inference import _options
from suite.worker.protocol import Trial, read_statistics, read_weights

trial = Trial.read(Path(sys.argv[1]))
options = _options(trial)
options.log_severity_level = 3  # the optimized model is for this machine alone, it warns
options.optimized_model_filepath = "optimized.onnx"
model = onnx_model.of(trial, read_weights(trial), read_statistics(trial))
onnxruntime.InferenceSession(model.SerializeToString(), options)
for made in (model, onnx.load("optimized.onnx")):
    print(*sorted({node.op_type for node in made.graph.node}))
"""

LAYERS_OF_OPENVINO = """
import sys
from pathlib import Path
from suite.worker.frameworks.openvino.inference import Predictor
from suite.worker.protocol import Trial, read_statistics, read_weights

trial = Trial.read(Path(sys.argv[1]))
Predictor(trial, read_weights(trial), read_statistics(trial))
assert not sys.modules["openvino_telemetry"]
for layer in Predictor.compiled.get_runtime_model().get_ops():
    facts = layer.get_rt_info()
    print(facts["layerType"].value, facts["originalLayersNames"].value, sep=":")
"""

REFUSED = """
import importlib, sys
from dataclasses import replace
from pathlib import Path
from suite.worker.protocol import Trial, read_statistics, read_weights

module = importlib.import_module(f"suite.worker.frameworks.{sys.argv[1]}.inference")
trial = Trial.read(Path(sys.argv[2]))
convolution, *others = trial.layers
unknown = {**trial.architecture, "layers": [{**convolution, "kind": "wavelet"}, *others]}
for change in ({"precision": "float64"}, {"device": "cuda:0"}, {"architecture": unknown}):
    changed = replace(trial, **change)
    try:
        module.Predictor(changed, read_weights(changed), read_statistics(changed))
    except (NotImplementedError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}")
"""

THREADS = """
import importlib, os, sys
cpu = min(os.sched_getaffinity(0))  # ONNX Runtime would pin its first thread to the second one
os.sched_setaffinity(0, [cpu])  # before numpy, which starts threads of its own
from dataclasses import replace
from pathlib import Path
import numpy as np
from suite.worker.protocol import Trial, read_statistics, read_weights

module = importlib.import_module(f"suite.worker.frameworks.{sys.argv[1]}.inference")
trial = Trial.read(Path(sys.argv[2]))
for threads in (None, 1, 2):
    trial = replace(trial, threads=threads, cpus=[cpu])
    predictor = module.Predictor(trial, read_weights(trial), read_statistics(trial))
    predictor.predict(np.load(Path(sys.argv[2]) / "batches.npy")[0])
    for thread in os.listdir("/proc/self/task"):
        assert os.sched_getaffinity(int(thread)) == {cpu}
    if threads == 1:
        print(module.device(trial)["threads"], module.memory(trial))
"""


@pytest.fixture
def folders(trial_folder: Path, tmp_path: Path) -> dict[str, Path]:
    """Trials of `NAMES` with two batches each; weights and statistics are unlike initial ones."""
    plain = json.loads((trial_folder / "trial.json").read_text())
    made = {}
    for name in NAMES:
        model = MODELS[name]()
        if name == "resnet50":
            model = dataclasses.replace(model, input_shape=(3, 64, 64))
        made[name] = tmp_path / name
        made[name].mkdir()
        write(model, plain, made[name])
    return made


def write(model: Architecture, plain: dict[str, object], folder: Path) -> None:
    generator = np.random.default_rng(5)
    weights = model.initial_weights(5)
    weights += generator.normal(0, 0.02, weights.size).astype(np.float32)
    np.save(folder / "weights.npy", weights)
    np.save(folder / "statistics.npy", model.inference_statistics(5))
    size = (2, BATCH_SIZE, *model.input_shape)
    tokens = generator.integers(0, model.classes, size, np.int32)
    batches = tokens if model.takes_tokens else generator.normal(size=size).astype(np.float32)
    np.save(folder / "batches.npy", batches)
    values = {
        **plain,
        "mode": "infer",
        "scenario": "multi_stream",
        "batch_size": BATCH_SIZE,
        "architecture": model.to_json(),
        "parameters": [{"name": p.name, "shape": p.shape} for p in model.parameters()],
        "statistics": [{"name": p.name, "shape": p.shape} for p in model.statistics()],
        "paths": {each: str(folder / f"{each}.npy") for each in ("weights", "statistics")},
    }
    (folder / "trial.json").write_text(json.dumps(values))


def test_logits_equal_those_of_pytorch_in_float64(folders: dict[str, Path]) -> None:
    places = [str(folder) for folder in folders.values()]
    for framework in ("pytorch", *FRAMEWORKS):
        precision = "float64" if framework == "pytorch" else "float32"
        output = in_environment(
            framework, PREDICT, framework, precision, *places, folder=folders["lenet"]
        )
        assert output == "predicted\n"
    for folder in folders.values():
        expected = np.load(folder / "pytorch.npy")
        scale = np.abs(expected).max()
        # The batches differ by much more than the tolerance, so neither result overwrote the other.
        assert np.abs(expected[0] - expected[1]).max() > 0.01 * scale
        for framework in FRAMEWORKS:
            found = np.load(folder / f"{framework}.npy")
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)


def test_onnx_runtime_folds_batch_norms_and_removes_dropout(folders: dict[str, Path]) -> None:
    for name in ("every_layer", "every_sequence", "resnet50"):
        folder = folders[name]
        output = in_environment("onnxruntime", OPERATORS, str(folder), folder=folder)
        ours, optimized = (set(line.split()) for line in output.splitlines())
        assert "BatchNormalization" in ours and ("Dropout" in ours) == (name == "every_layer")
        assert not {"BatchNormalization", "Dropout"} & optimized
        # An operator without a kernel would be replaced by the small ones of its definition.
        assert ("Attention" in optimized) == ("Attention" in ours)


def test_openvino_folds_batch_norms_and_reports_nothing(folders: dict[str, Path]) -> None:
    folder = folders["every_layer"]
    output = in_environment("openvino", LAYERS_OF_OPENVINO, str(folder), folder=folder)
    layers = [line.split(":") for line in output.splitlines()]
    # A layer has the names of all that it computes. Where one is removed, its result is that of the
    # layer before it.
    computed = {name: kind for kind, names in layers for name in names.split(",")}
    assert computed["norm1"] == computed["relu1"] == "Convolution"
    assert computed["dropout"] == "Concatenation"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_a_framework_cannot_do_is_refused(framework: str, folders: dict[str, Path]) -> None:
    folder = folders["lenet"]
    output = in_environment(framework, REFUSED, framework, str(folder), folder=folder)
    precision, device, layer = output.splitlines()
    assert precision.startswith("NotImplementedError") and "'float64'" in precision
    assert device.startswith("RuntimeError") and "CUDA" in device
    assert layer == "NotImplementedError: ONNX module has no layer 'wavelet'"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_threads_stay_on_the_cpus_of_the_trial(framework: str, folders: dict[str, Path]) -> None:
    folder = folders["lenet"]
    output = in_environment(framework, THREADS, framework, str(folder), folder=folder)
    assert output == "1 {}\n"


def test_these_models_have_all_kinds_of_layers(folders: dict[str, Path]) -> None:
    trials = [Trial.read(folder) for folder in folders.values()]
    tested = {leaf["kind"] for trial in trials for leaf in trial.leaves()}
    known = {leaf.kind for make in MODELS.values() for leaf in make().leaves()}
    assert tested == known
