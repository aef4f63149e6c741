import numpy as np
import pytest

from suite.models import MODELS
from suite.models.architecture import Architecture
from suite.models.layers import Conv2d, Dense, Flatten, MaxPool2d


def test_lenet_has_the_published_parameters_and_shapes() -> None:
    lenet = MODELS["lenet"]()
    assert lenet.parameter_count == 431_080
    assert [parameter.name for parameter in lenet.parameters()][:3] == [
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
    ]
    assert lenet.shapes()[1:6] == ((20, 24, 24), (20, 12, 12), (50, 8, 8), (50, 4, 4), (800,))


def test_flops_count_two_for_each_multiply_accumulate() -> None:
    lenet = MODELS["lenet"]()
    conv1 = 24 * 24 * 20 * 25
    macs = conv1 + 8 * 8 * 50 * 20 * 25 + 800 * 500 + 500 * 10
    assert lenet.flops_per_sample("infer") == 2 * macs
    assert lenet.flops_per_sample("train") == 6 * macs - 2 * conv1


def test_windows_drop_the_incomplete_last_one_and_count_padding() -> None:
    pool = MaxPool2d(name="pool", kernel=(2, 2), stride=(2, 2))
    assert pool.output_shape((3, 7, 8)) == (3, 3, 4)
    conv = Conv2d(
        name="c", in_channels=3, out_channels=8, kernel=(3, 3), stride=(2, 2), padding=(1, 1)
    )
    assert conv.output_shape((3, 7, 8)) == (8, 4, 4)


def test_initial_weights_follow_seed_and_fan_in() -> None:
    lenet = MODELS["lenet"]()
    weights = lenet.initial_weights(1)
    assert weights.dtype == np.float32 and weights.shape == (431_080,)
    assert np.array_equal(weights, lenet.initial_weights(1))
    assert not np.array_equal(weights, lenet.initial_weights(2))
    dense1 = weights[25_570 : 25_570 + 400_000]
    assert dense1.std() == pytest.approx(np.sqrt(2 / 800), rel=0.01)
    assert not weights[25_570 + 400_000 : 25_570 + 400_500].any()


def test_layers_that_do_not_fit_are_named() -> None:
    broken = Architecture(
        name="broken",
        input_shape=(1, 4, 4),
        classes=10,
        layers=(
            Flatten(name="flatten", input_shape=(1, 4, 4)),
            Dense(name="last", in_features=15, out_features=10),
        ),
    )
    with pytest.raises(ValueError, match=r"layer 'last' cannot take an input of shape \(16,\)"):
        broken.shapes()
