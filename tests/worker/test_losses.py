"""The losses of an evaluation, and what the logits predict."""

import numpy as np
import pytest

from suite.worker.losses import LOSSES, predictions

LOGITS = np.array([[2.0, -1.0, 0.5], [-3.0, 40.0, -800.0]])


def test_the_cross_entropy_is_the_negative_logarithm_of_the_softmax() -> None:
    share = np.exp(LOGITS[0]) / np.exp(LOGITS[0]).sum()
    found = LOSSES["cross_entropy"](LOGITS, np.array([2, 1]))
    assert found == pytest.approx([-np.log(share[2]), 0.0])
    of_text = LOSSES["cross_entropy"](LOGITS[None], np.array([[2, 1]]))
    assert of_text.shape == (1, 2) and of_text[0] == pytest.approx(found)


def test_the_squared_error_is_the_mean_over_the_outputs() -> None:
    targets = LOGITS + np.array([[1.0, -2.0, 0.0], [0.0, 0.0, 3.0]])
    assert LOSSES["mean_squared_error"](LOGITS, targets).tolist() == [5 / 3, 3.0]


def test_the_huber_loss_is_half_the_square_of_small_errors_and_linear_beyond() -> None:
    targets = LOGITS + np.array([[1.0, -2.0, 0.0], [0.5, 0.0, 3.0]])
    found = LOSSES["huber"](LOGITS, targets)
    assert found == pytest.approx([(0.5 + 1.5) / 3, (0.125 + 2.5) / 3])


def test_the_binary_cross_entropy_is_that_of_the_sigmoid_and_does_not_overflow() -> None:
    labels = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    found = LOSSES["binary_cross_entropy"](LOGITS, labels)
    sigmoid = 1 / (1 + np.exp(-LOGITS[0]))
    of_first = -labels[0] * np.log(sigmoid) - (1 - labels[0]) * np.log(1 - sigmoid)
    assert found == pytest.approx([of_first.mean(), (np.log1p(np.exp(-3.0)) + 800) / 3])


def test_numbers_have_no_predictions() -> None:
    assert predictions("mean_squared_error", LOGITS) is None
    assert predictions("cross_entropy", LOGITS).tolist() == [0, 1]
    assert predictions("binary_cross_entropy", LOGITS).tolist() == [[1, 0, 1], [0, 1, 0]]
