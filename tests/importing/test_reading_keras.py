"""Files of Keras as layers, with Keras's own environment."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.errors import EngineError
from suite.importing import reading
from suite.importing.reading import Imported, ImportRefused
from tests.worker.conftest import in_environment, python_of

HEAD = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
from keras import layers as L
keras.utils.set_random_seed(1)
x = inputs = keras.Input((16, 16, 3))
"""
END = """
keras.Model(inputs, x).save("net.keras")
"""
NETWORK = """
x = L.Rescaling(1 / 255)(x)
x = L.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
x = L.BatchNormalization(momentum=0.9)(x)
x = L.Activation("swish")(x)
y = L.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(x)
g = L.Reshape((1, 1, 16))(L.GlobalAveragePooling2D()(y))
y = L.Multiply()([y, L.Conv2D(16, 1, activation="sigmoid")(g)])
y = L.SeparableConv2D(8, 3, padding="same")(y)
x = L.Add()([x, L.Dropout(0.2, noise_shape=(None, 1, 1, 1))(y)])
x = L.AveragePooling2D(3, 2, padding="same")(x)
x = L.Conv2D(8, 3)(L.ZeroPadding2D(((1, 2), (0, 1)))(x))
x = L.LayerNormalization()(x)
x = x * (L.ReLU(6.0)(x + 3.0) * (1.0 / 6.0))
x = L.Dense(20, activation="gelu")(L.Flatten()(x))
x = L.Dense(5, activation="softmax")(x)
"""
Import = Callable[..., Imported]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def run(code: str, *, end: str = END) -> Imported:
        in_environment("keras", HEAD + code + end, folder=tmp_path)
        return read(tmp_path)

    return run


def read(folder: Path, shape: tuple[int, ...] | None = None) -> Imported:
    python = python_of("keras")
    return reading.from_keras(folder / "net.keras", shape, name="net", python=python, folder=folder)


def kinds(found: Imported) -> list[str]:
    return [layer.kind for layer in found.architecture.leaves()]


def test_a_network_becomes_layers_with_channels_first(imported: Import) -> None:
    found = imported(NETWORK)
    assert kinds(found) == [
        *("conv2d", "batch_norm", "silu", "conv2d", "avg_pool2d", "conv2d", "sigmoid"),
        *("conv2d", "conv2d", "dropout", "avg_pool2d", "conv2d", "layer_norm", "hard_swish"),
        *("flatten", "dense", "gelu", "dense"),
    ]
    named = (*found.architecture.parameters(), *found.architecture.statistics())
    assert {each.name: each.shape for each in named} == {
        name: values.shape for name, values in found.own.weights.items()
    }
    assert found.architecture.input_shape == (3, 16, 16) and found.architecture.classes == 5
    first, norm = found.architecture.layers[:2]
    assert (first.padding, first.extra_padding) == ((0, 0), (1, 1))  # type: ignore[attr-defined]
    assert norm.momentum == pytest.approx(0.1)  # type: ignore[attr-defined]
    assert [note.partition(" at the ")[2].split()[0] for note in found.notes] == ["input", "end"]


@pytest.mark.verify
def test_a_sequence_of_layers_and_a_model_inside_one(imported: Import) -> None:
    found = imported(
        "inner = keras.Sequential([keras.Input((16, 16, 3)), L.Conv2D(4, 3), L.ReLU()])\n"
        "keras.Sequential([keras.Input((16, 16, 3)), inner, L.GlobalAveragePooling2D(),"
        " L.Dense(3)]).save('net.keras')",
        end="",
    )
    assert kinds(found) == ["conv2d", "relu", "global_avg_pool2d", "dense"]


@pytest.mark.verify
def test_sides_that_no_window_takes_are_layers(imported: Import) -> None:
    found = imported(
        "x = L.Conv2D(4, 3)(x)\nx = L.MaxPooling2D(3, 2)(L.ZeroPadding2D(1)(x))\n"
        "x = L.Cropping2D(((1, 0), (2, 1)))(L.ZeroPadding2D(((0, 1), (0, 1)))(x))\n"
        "x = L.BatchNormalization()(L.Dense(6)(L.Flatten()(x)))\nx = L.Dense(3)(x)\n"
    )
    assert kinds(found) == [
        *("conv2d", "zero_padding2d", "max_pool2d", "zero_padding2d", "cropping2d"),
        *("flatten", "dense", "batch_norm", "dense"),
    ]
    assert found.architecture.layers[4].to_json((4, 8, 8))["left"] == 2


@pytest.mark.verify
def test_signals_are_images_of_height_one(imported: Import) -> None:
    found = imported(
        "x = inputs = keras.Input((40, 2))\n"
        "x = L.ReLU()(L.BatchNormalization()(L.Conv1D(8, 5, strides=2, padding='same')(x)))\n"
        "x = L.MaxPooling1D(2)(L.Conv1D(6, 3, padding='causal', dilation_rate=2)(x))\n"
        "x = L.SeparableConv1D(4, 3)(L.Cropping1D((1, 0))(L.UpSampling1D(2)(x)))\n"
        "x = L.Concatenate()([x, L.Conv1DTranspose(3, 3, padding='same')(x)])\n"
        "x = L.Dense(5)(L.Flatten()(L.AveragePooling1D(2)(x)))\n"
    )
    assert kinds(found) == [
        *("conv2d", "batch_norm", "relu", "zero_padding2d", "conv2d", "max_pool2d", "upsample"),
        *("cropping2d", "conv2d", "conv2d", "conv2d_transposed", "cropping2d", "avg_pool2d"),
        *("flatten", "dense"),
    ]
    assert found.architecture.input_shape == (2, 1, 40)
    assert found.own.inputs.shape == (32, 2, 1, 40)


@pytest.mark.verify
def test_an_open_shape_is_set(imported: Import, tmp_path: Path) -> None:
    code = (
        "x = inputs = keras.Input((None, None, 3))\n"
        "x = L.Dense(3, activation='sigmoid')(L.GlobalAveragePooling2D()(L.Conv2D(4, 3)(x)))\n"
    )
    with pytest.raises(ImportRefused, match="shape of its input is open"):
        imported(code)
    found = read(tmp_path, (3, 12, 10))
    assert found.architecture.input_shape == (3, 12, 10)
    assert kinds(found) == ["conv2d", "global_avg_pool2d", "dense"]  # the loss has the sigmoid
    with pytest.raises(ImportRefused, match=r"not \[12, 10, 4\]"):
        read(tmp_path, (4, 12, 10))


@pytest.mark.verify
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = L.UnitNormalization()(x)", r"UnitNormalization at .*, input \[16, 16, 3\]: no layer"),
        ("x = L.Activation('elu')(x)", "elu: no layer is this activation"),
        ("x = L.BatchNormalization(axis=1)(x)", "is over the channels"),
        ("x = x + 2.0", "a number, 2: no layer is that"),
        ("x = L.Dense(3, activation='selu')(x)", "activation selu"),
        ("layer = L.Conv2D(3, 1)\nx = layer(layer(x))", "shared weights have no layer"),
        ("x = L.Resizing(8, 8)(x)", "Resizing"),
    ],
)
def test_what_no_layer_is_is_named(imported: Import, code: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(f"{code}\nx = L.Flatten()(x)")


def test_code_of_the_files_author_is_not_run(tmp_path: Path) -> None:
    """The configuration of a file is refused before Keras loads it."""
    evil = {"module": "evil", "class_name": "Evil", "registered_name": "evil>Evil"}
    config = {"module": "keras", "class_name": "Sequential", "config": {"layers": [evil]}}
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as file:
        file.writestr("config.json", json.dumps(config))
    with pytest.raises(ImportRefused, match="evil>Evil: code of the file's author is not run"):
        read(tmp_path)


@pytest.mark.verify
def test_code_inside_a_file_of_keras_is_not_run(imported: Import, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="Lambda: code of the file's author is not run"):
        imported("x = L.Flatten()(L.Lambda(lambda x: x * 2)(x))")
    with zipfile.ZipFile(tmp_path / "net.keras") as file:
        config = json.loads(file.read("config.json"))
        parts = {name: file.read(name) for name in file.namelist()}
    layer = config["config"]["layers"][1]
    layer |= {"module": "evil", "class_name": "Evil", "registered_name": "evil>Evil"}
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(ImportRefused, match="evil>Evil: code of the file's author"):
        read(tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18)])
def test_a_damaged_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.keras").write_bytes(content)
    with pytest.raises(EngineError, match=r"net\.keras is not imported") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
