import numpy as np
import pytest

from suite.paths import REPOSITORY
from suite.worker.sketch import CHUNK, SIZE, sketch


def test_a_small_tensor_is_its_own_sketch() -> None:
    values = np.arange(SIZE, dtype=np.float32).reshape(16, 16)
    assert np.array_equal(sketch(values), values.ravel())
    assert sketch(values).dtype == np.float64


def test_the_sketch_of_a_difference_is_the_difference_of_the_sketches() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.normal(size=(2, CHUNK + 12_345))
    np.testing.assert_allclose(sketch(one - other), sketch(one) - sketch(other), atol=1e-9)


@pytest.mark.parametrize("size", [1000, 100_000, CHUNK + 7])
def test_its_norm_estimates_that_of_the_tensor(size: int) -> None:
    generator = np.random.default_rng(1)
    for _ in range(5):
        values = generator.normal(size=size)
        ratio = np.linalg.norm(sketch(values)) / np.linalg.norm(values)
        assert abs(ratio - 1) < 4 / np.sqrt(2 * SIZE)


def test_the_norm_shows_a_single_wrong_value_at_any_index() -> None:
    values = np.zeros(CHUNK + 500)
    for index in (0, 4711, CHUNK - 1, CHUNK, CHUNK + 499):
        values[index] = 3.0
        assert np.linalg.norm(sketch(values)) == 3.0
        values[index] = 0.0


def test_the_sketch_of_a_value_that_is_not_finite_is_not_finite() -> None:
    values = np.ones(10_000)
    values[77] = np.nan
    assert not np.isfinite(sketch(values)).all()


def test_its_examples_are_those_of_the_protocol() -> None:
    """They let a worker in another language check its sketches."""
    units = [sketch(np.eye(1, 1000, index)) for index in range(3)]
    found = [(int(np.abs(each).argmax()), int(each.sum())) for each in units]
    assert found == [(175, -1), (193, 1), (206, 1)]
    protocol = (REPOSITORY / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
    assert "175 with a minus, 193 and 206 with a plus" in protocol
