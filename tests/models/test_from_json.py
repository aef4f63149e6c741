import json

import pytest

from suite.models import MODELS
from suite.models.from_json import architecture_of


@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_survives_its_json(name: str) -> None:
    model = MODELS[name]()
    assert architecture_of(json.loads(json.dumps(model.to_json()))) == model


def test_what_is_no_architecture_is_refused() -> None:
    values = MODELS["lenet"]().to_json()
    for change in ({"input_shape": [2, 2]}, {"layers": [{"kind": "warp", "name": "w"}]}):
        with pytest.raises((ValueError, LookupError)):
            architecture_of(values | change)
