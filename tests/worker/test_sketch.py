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
def test_its_norm_is_that_of_the_tensor_within_a_few_deviations(size: int) -> None:
    generator = np.random.default_rng(1)
    for _ in range(5):
        values = generator.normal(size=size)
        ratio = np.linalg.norm(sketch(values)) / np.linalg.norm(values)
        assert abs(ratio - 1) < 4 / np.sqrt(2 * SIZE)


def test_one_wrong_value_shows_whole_wherever_it_is() -> None:
    values = np.zeros(CHUNK + 500)
    for place in (0, 4711, CHUNK - 1, CHUNK, CHUNK + 499):
        values[place] = 3.0
        assert np.linalg.norm(sketch(values)) == 3.0
        values[place] = 0.0


def test_what_is_not_finite_stays_so() -> None:
    values = np.ones(10_000)
    values[77] = np.nan
    assert not np.isfinite(sketch(values)).all()


def test_its_places_are_those_that_the_protocol_prints() -> None:
    """So that a worker in another language can check itself."""
    lone = [sketch(np.eye(1, 1000, place)) for place in range(3)]
    found = [(int(np.abs(each).argmax()), int(each.sum())) for each in lone]
    assert found == [(175, -1), (193, 1), (206, 1)]
    protocol = (REPOSITORY / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert "175 with a minus, 193 and 206 with a plus" in protocol
