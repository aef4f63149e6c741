import pytest

from suite.manifests.devices import Devices


@pytest.mark.parametrize(
    ("text", "devices", "ranks"),
    [
        ("cpu", Devices("cpu"), 1),
        ("cpu:2", Devices("cpu", 2), 2),
        ("cuda:4x2", Devices("cuda", 4, 2), 8),
        ("cpu:1x3", Devices("cpu", 1, 3), 3),
    ],
)
def test_a_device_set_has_a_kind_a_number_and_nodes(
    text: str, devices: Devices, ranks: int
) -> None:
    assert Devices.parse(text) == devices
    assert (str(devices), devices.ranks) == (text, ranks)


@pytest.mark.parametrize("text", ["", "gpu:2", "cpu:0", "cpu:", "cpu:2x", "cpu:2x0", "cpu: 2"])
def test_another_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="is not a device set, such as cpu, cpu:2"):
        Devices.parse(text)
