"""JSON that has one reading only."""

import pytest

from suite.manifests import json_file


def test_json_of_one_reading_is_read() -> None:
    assert json_file.loads(b'{"a": [1, {"a": null}]}') == {"a": [1, {"a": None}]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' is given twice"),
        ("[" * 100_000, "too many levels"),
        ("{", "Expecting property name"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        json_file.loads(text)
