from typing import Any

import numpy as np
import pytest

from suite.manifests import models
from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.branches import Add, Concat, Multiply
from suite.models.layers import AvgPool2d, Conv2d, Dense, Flatten, Layer, MaxPool2d, Shape
from suite.models.sequences import Lstm

UNEVEN: dict[str, Any] = {"kernel": (3, 3), "stride": (2, 2), "extra_padding": (1, 1)}


def test_lenet_has_the_published_parameters_and_shapes() -> None:
    lenet = MODELS["lenet"]()
    assert lenet.parameter_count == 431_080
    assert [parameter.name for parameter in lenet.parameters()][:3] == [
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
    ]
    assert lenet.shapes()[1:6] == [(20, 24, 24), (20, 12, 12), (50, 8, 8), (50, 4, 4), (800,)]


# Parameter counts as published: in the papers, in torchvision and timm for the ImageNet forms, in
# the repositories that the modules name for the CIFAR-10 forms.
PUBLISHED = {
    "lenet": 431_080,
    "kent_small": 101_770,
    "kent_medium": 220_234,
    "kent_big": 1_683_722,
    "adnn_cnn": 824_458,
    "db_mlp": 16 * 30 + 30 + 30 * 30 + 30 + 30 * 10 + 10,
    "lstm": 80_384 + 1_290,
    "alexnet": 61_100_840,
    "googlenet": 6_624_904,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
    "vit_tiny": 5_717_416,
    "gpt_small": 124_439_808 - (50_257 - 256) * 768,  # GPT-2's, with the vocabulary of bytes
    "alexnet_cifar10": 2_472_266,
    "googlenet_cifar10": 6_166_250,
    "resnet50_cifar10": 23_520_842,
    "vgg16_cifar10": 15_245_130,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_model_has_the_published_parameters(name: str) -> None:
    model = MODELS[name]()
    model.shapes()
    omitted = 0
    if name == "googlenet_cifar10":  # its biases before batch norms, which have no effect
        omitted = sum(each.out_channels for each in model.leaves() if isinstance(each, Conv2d))
    assert model.parameter_count + omitted == PUBLISHED[name]


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_valid(name: str) -> None:
    assert models.problem(name) is None


def test_twelve_small_models_hold_every_kind_of_layer() -> None:
    used = {each for name in MODELS for layer in MODELS[name]().leaves() for each in layer.needs}
    names = (
        "every_layer",
        "every_sequence",
        "every_mobile",
        "every_window",
        "every_channel",
        "every_decoder",
        "every_attention",
        "every_swin",
        "every_text",
        "every_padded",
        "every_response",
        "gpt_tiny",
    )
    small = [MODELS[name]() for name in names]
    assert used == {each for model in small for layer in model.leaves() for each in layer.needs}


@pytest.mark.parametrize(
    ("changes", "shape", "weight", "macs"),
    [
        ({}, (16, 14, 14), (16, 8, 3, 3), 16 * 14 * 14 * 8 * 9),
        ({"groups": 8}, (16, 14, 14), (16, 1, 3, 3), 16 * 14 * 14 * 9),
        ({"groups": 4}, (16, 14, 14), (16, 2, 3, 3), 16 * 14 * 14 * 2 * 9),
        ({"dilation": (2, 1)}, (16, 12, 14), (16, 8, 3, 3), 16 * 12 * 14 * 8 * 9),
        ({"dilation": (2, 2), "padding": (2, 2)}, (16, 14, 14), (16, 8, 3, 3), 16 * 196 * 72),
    ],
)
def test_groups_and_dilation_of_a_convolution(
    changes: dict[str, Any], shape: Shape, weight: Shape, macs: int
) -> None:
    sizes = {"in_channels": 8, "out_channels": 16, "kernel": (3, 3), "padding": (1, 1)}
    layer = Conv2d(name="conv", **{**sizes, **changes})
    assert layer.output_shape((8, 14, 14)) == shape
    assert layer.parameters()[0].shape == weight and layer.macs((8, 14, 14)) == macs


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ValueError, match="3 groups do not divide"):
        Conv2d(name="conv", in_channels=8, out_channels=9, kernel=(1, 1), groups=3)


@pytest.mark.parametrize(
    ("gate", "shape"), [((8, 1, 1), (8, 14, 14)), ((8, 14, 14), (8, 14, 14)), ((8, 7, 7), None)]
)
def test_a_product_repeats_axes_of_size_one(gate: Shape, shape: Shape | None) -> None:
    kernel = (14 // gate[1], 14 // gate[2])
    pool = AvgPool2d(name="pool", kernel=kernel, stride=kernel)
    product = Multiply(name="gated", branches=((pool,), ()))
    if shape is None:
        with pytest.raises(ValueError, match="cannot take"):
            product.output_shape((8, 14, 14))
    else:
        assert product.output_shape((8, 14, 14)) == shape


def test_flops_of_large_models_equal_those_of_the_literature() -> None:
    """He et al. 2015 and others count multiply-accumulates, without those of small layers."""
    macs = {name: MODELS[name]().flops_per_sample("infer") / 2e9 for name in PUBLISHED}
    assert macs["resnet50"] == pytest.approx(4.09, abs=0.01)
    assert macs["vgg16"] == pytest.approx(15.47, abs=0.01)
    assert macs["alexnet"] == pytest.approx(0.71, abs=0.01)


def test_flops_count_two_for_each_multiply_accumulate() -> None:
    lenet = MODELS["lenet"]()
    conv1 = 24 * 24 * 20 * 25
    macs = conv1 + 8 * 8 * 50 * 20 * 25 + 800 * 500 + 500 * 10
    assert lenet.flops_per_sample("infer") == 2 * macs
    assert lenet.flops_per_sample("train") == 6 * macs - 2 * conv1


def test_the_gradient_of_an_lstms_hidden_states_counts_though_it_is_the_first_layer() -> None:
    lstm = MODELS["lstm"]()
    length, size = lstm.shapes()[1]
    hidden = next(layer for layer in lstm.layers if isinstance(layer, Lstm)).hidden
    forward = lstm.flops_per_sample("infer")
    assert lstm.flops_per_sample("train") == 3 * forward - 2 * length * 4 * hidden * size


def test_the_first_layer_of_each_branch_needs_no_gradient_of_the_input() -> None:
    """Of the four dense layers, the two that have the model's input as theirs."""
    first, second = (Dense(name=f"d{n}", in_features=6, out_features=6) for n in (1, 2))
    third, fourth = (Dense(name=f"d{n}", in_features=6, out_features=6) for n in (3, 4))
    add = Add(name="add", branches=((first, second), (third, fourth)))
    model = Architecture(name="branches", input_shape=(6,), classes=6, layers=(add,))
    macs = 4 * 36
    assert model.flops_per_sample("train") == 6 * macs - 2 * 2 * 36


def test_flops_of_causal_attention_are_those_of_the_pairs_that_it_sees() -> None:
    gpt = MODELS["gpt_tiny"]()
    length, features, blocks = 64, 48, 3
    block = 12 * features**2 * length + length * (length + 1) * features
    macs = blocks * block + length * features * 256
    assert gpt.flops_per_sample("infer") == 2 * macs
    assert gpt.flops_per_sample("train") == 6 * macs  # the embedding needs all gradients


def test_windows_include_padding_and_drop_an_incomplete_last_one() -> None:
    pool = MaxPool2d(name="pool", kernel=(2, 2), stride=(2, 2))
    assert pool.output_shape((3, 7, 8)) == (3, 3, 4)
    whole = MaxPool2d(name="pool", kernel=(2, 2), stride=(2, 2), ceil=True)
    assert whole.output_shape((3, 7, 8)) == (3, 4, 4)
    conv = Conv2d(
        name="c", in_channels=3, out_channels=8, kernel=(3, 3), stride=(2, 2), padding=(1, 1)
    )
    assert conv.output_shape((3, 7, 8)) == (8, 4, 4)


def test_initial_weights_depend_on_the_seed_and_fan_in() -> None:
    lenet = MODELS["lenet"]()
    weights = lenet.initial_weights(1)
    assert weights.dtype == np.float32 and weights.shape == (431_080,)
    assert np.array_equal(weights, lenet.initial_weights(1))
    assert not np.array_equal(weights, lenet.initial_weights(2))
    dense1 = weights[25_570 : 25_570 + 400_000]
    assert dense1.std() == pytest.approx(np.sqrt(2 / 800), rel=0.01)
    assert not weights[25_570 + 400_000 : 25_570 + 400_500].any()


def test_no_parameter_of_inference_is_a_constant() -> None:
    resnet = MODELS["resnet50_cifar10"]()
    initial, weights = resnet.initial_weights(1), resnet.inference_weights(1)
    assert np.array_equal(weights, resnet.inference_weights(1))
    first = 0
    for each in resnet.parameters():
        values = weights[first : first + each.size]
        assert values.std() == pytest.approx(each.std or 0.1, rel=0.4), each.name
        assert np.array_equal(values, initial[first : first + each.size]) == (each.std > 0)
        first += each.size


def test_batch_norm_positions_are_those_of_the_largest_image() -> None:
    assert MODELS["resnet50"]().batch_norm_positions == 112 * 112
    assert MODELS["vgg16"]().batch_norm_positions == 0


def test_a_layer_that_does_not_fit_its_input_is_named() -> None:
    broken = Architecture(
        name="broken",
        input_shape=(1, 4, 4),
        classes=10,
        layers=(
            Flatten(name="flatten"),
            Dense(name="last", in_features=15, out_features=10),
        ),
    )
    message = r"layer 'last' cannot take an input of shape \(16,\): Dense\(.*in_features=15, "
    with pytest.raises(ValueError, match=message):
        broken.shapes()


def test_branches_with_different_result_shapes_are_named() -> None:
    narrow = Conv2d(name="narrow", in_channels=3, out_channels=3, kernel=(3, 3))
    with pytest.raises(ValueError, match="layer 'add' cannot take an input of shape"):
        Add(name="add", branches=((narrow,), ())).output_shape((3, 8, 8))
    with pytest.raises(ValueError, match="layer 'concat' cannot take"):
        Concat(name="concat", branches=((narrow,), ())).output_shape((3, 8, 8))
    same = Conv2d(name="same", in_channels=3, out_channels=5, kernel=(3, 3), padding=(1, 1))
    assert Concat(name="concat", branches=((same,), ())).output_shape((3, 8, 8)) == (8, 8, 8)
    with pytest.raises(ValueError, match="layer 'alone' needs two branches or more"):
        Add(name="alone", branches=((),))


def test_each_layer_in_trial_json_has_its_input_shape() -> None:
    inner = MODELS["resnet50_cifar10"]().to_json()["layers"][3]["branches"][0]
    assert [layer["input_shape"][0] for layer in inner] == [64] * 7 + [256]


@pytest.mark.parametrize("name", list(MODELS))
def test_batch_norms_have_positions_and_no_other_model_has(name: str) -> None:
    """Also where the batch norm is inside a branch, and no other layer sees an image."""
    model = MODELS[name]()
    has_batch_norm = any(layer.kind == "batch_norm" for layer in model.leaves())
    assert (model.batch_norm_positions > 0) == has_batch_norm


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Conv2d(name="c", in_channels=8, out_channels=8, **UNEVEN), (8, 7, 7)),
        (MaxPool2d(name="p", **UNEVEN), (8, 7, 7)),
        (AvgPool2d(name="p", **UNEVEN), (8, 7, 7)),
        (MaxPool2d(name="p", kernel=(3, 3), stride=(2, 2)), (8, 6, 7)),
        (MaxPool2d(name="p", kernel=(3, 3), stride=(2, 2), ceil=True), (8, 7, 7)),
    ],
)
def test_extra_padding_is_below_and_to_the_right(layer: Layer, shape: tuple[int, ...]) -> None:
    """With 14 rows it is TensorFlow's SAME for stride 2."""
    assert layer.output_shape((8, 14, 15)) == shape
