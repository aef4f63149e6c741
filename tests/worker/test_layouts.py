import numpy as np

from suite.worker.layouts import shares, to_canonical, to_channels_last
from suite.worker.protocol import Trial, read_weights


def test_a_conversion_and_its_inverse_change_nothing(trial: Trial) -> None:
    weights = read_weights(trial)
    back = to_canonical(trial, to_channels_last(trial, weights))
    assert all(np.array_equal(back[name], values) for name, values in weights.items())


def test_the_dense_layer_after_a_flatten_has_the_same_result_in_both_layouts(trial: Trial) -> None:
    weights = read_weights(trial)
    converted = to_channels_last(trial, weights)
    values = np.random.default_rng(0).normal(size=(2, 50, 4, 4))
    channels_first = values.reshape(2, -1) @ weights["dense1.weight"].T
    channels_last = values.transpose(0, 2, 3, 1).reshape(2, -1) @ converted["dense1.weight"]
    np.testing.assert_allclose(channels_last, channels_first, rtol=1e-9)
    assert converted["dense2.weight"].shape == (500, 10)
    assert converted["conv1.weight"].shape == (5, 5, 1, 20)


def test_the_share_of_a_window_that_is_no_padding() -> None:
    layer = {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1], "extra_padding": [0, 0]}
    layer |= {"input_shape": [1, 4, 5], "count_padding": False}
    assert np.allclose(shares(layer) * 9, [[4, 6, 4], [6, 9, 6]])
    assert shares({**layer, "count_padding": True}) is None
    assert shares({**layer, "padding": [0, 0]}) is None
