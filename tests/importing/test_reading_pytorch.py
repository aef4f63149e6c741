"""Modules of PyTorch as layers, with PyTorch's own environment."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from suite.errors import EngineError, UsageError
from suite.importing import reading
from suite.importing.reading import Imported, ImportRefused
from suite.models.branches import Branches
from suite.models.layers import LocalResponseNorm
from tests.importing.forked import Forked
from tests.worker.conftest import python_of

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
MODULE = "class Net(nn.Module):\n    def forward(self, x):\n"
Import = Callable[..., Imported]


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    made = Forked(python_of("pytorch"), tmp_path_factory.mktemp("forked"))
    yield made
    made.stop()


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: Forked) -> Import:
    monkeypatch.setattr(reading, "ask", forked.ask)

    def run(code: str, *, shape: tuple[int, ...] = (3, 8, 8), name: str = "Net") -> Imported:
        source = tmp_path / "net.py"
        source.write_text(HEAD + textwrap.dedent(code))
        python = python_of("pytorch")
        return reading.from_pytorch(
            str(source), name, shape, name="net", python=python, folder=tmp_path
        )

    return run


def kinds(found: Imported) -> list[str]:
    return [layer.kind for layer in found.architecture.layers]


def test_a_network_becomes_layers_with_its_weights(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.Conv1 = nn.Conv2d(3, 8, 3, padding=1, groups=1)
                self.norm = nn.BatchNorm2d(8, eps=1e-3, momentum=0.2)
                self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU())
                self.pool = nn.AdaptiveAvgPool2d(1)
                self.drop = nn.Dropout(0.3)
                self.fc = nn.Linear(8, 5)

            def forward(self, x):
                x = F.relu(self.norm(self.Conv1(x)))
                x = x + self.deep(x)
                x = F.max_pool2d(x, 2)
                x = self.pool(x).flatten(1)
                return self.fc(self.drop(x))
    """)
    assert kinds(found) == [
        *("conv2d", "batch_norm", "relu", "add", "max_pool2d", "global_avg_pool2d"),
        *("dropout", "dense"),
    ]
    assert found.architecture.classes == 5 and found.own.logits.shape == (32, 5)
    names = [each.name for each in found.architecture.parameters()]
    assert set(names) | {"norm.mean", "norm.variance"} == set(found.own.weights)
    for each in found.architecture.parameters():
        assert found.own.weights[each.name].shape == each.shape
    norm = found.architecture.layers[1]
    assert (norm.epsilon, norm.momentum) == (1e-3, 0.2)  # type: ignore[attr-defined]
    assert not found.notes and np.isfinite(found.own.logits).all()


def test_squeeze_and_excitation_is_a_product(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Sequential(
                    nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 3, 1), nn.Hardsigmoid())
                self.end = nn.Linear(3 * 64, 4)

            def forward(self, x):
                x = self.gate(x) * x
                return self.end(x.view(x.size(0), -1))
    """)
    assert kinds(found) == ["multiply", "flatten", "dense"]
    gate = found.architecture.layers[0]
    assert isinstance(gate, Branches)
    assert [each.kind for each in gate.branches[0]] == ["avg_pool2d", "conv2d", "hard_sigmoid"]


def test_a_function_and_an_object_are_models_too(imported: Import) -> None:
    code = "def make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 3))\nnet = make()\n"
    assert kinds(imported(code, name="make")) == ["flatten", "dense"]
    assert kinds(imported(code, name="net")) == ["flatten", "dense"]


def test_vectors_are_normalized_and_a_sigmoid_at_the_end_is_a_part_of_the_loss(
    imported: Import,
) -> None:
    code = (
        "net = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.BatchNorm1d(6), nn.ReLU(),"
        " nn.Linear(6, 3), nn.Sigmoid())\n"
    )
    found = imported(code, name="net")
    assert kinds(found) == ["flatten", "dense", "batch_norm", "relu", "dense"]
    assert found.ending == "sigmoid" and "the sigmoid at the end is left out" in found.notes[0]


def test_zeros_that_no_window_takes_are_a_layer(imported: Import) -> None:
    code = "net = nn.Sequential(nn.ZeroPad2d((1, 0, 2, 0)), nn.Flatten(), nn.Linear(270, 3))\n"
    found = imported(code, name="net")
    assert kinds(found) == ["zero_padding2d", "flatten", "dense"]
    assert found.architecture.layers[0].output_shape((3, 8, 8)) == (3, 10, 9)


def test_several_results_in_training_are_traced_in_inference(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(192, 3)

            def forward(self, x):
                x = self.fc(x.flatten(1))
                return (x, x) if self.training else x
    """)
    assert kinds(found) == ["flatten", "dense"] and "several results" in found.notes[0]


UNET = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4))
            self.pool = nn.MaxPool2d(2)
            self.up = nn.ConvTranspose2d(4, 4, 3, 2, padding=1, output_padding=1)
            self.norm = nn.InstanceNorm2d(4, affine=True)
            self.wide = nn.Upsample(scale_factor=2, mode="bilinear")
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            skip = self.down(x)
            x = torch.cat([skip, self.norm(self.up(self.pool(skip)))], 1)
            return F.interpolate(self.head(self.wide(x)), scale_factor=(1, 2))
"""
RECURRENT = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 6, 2, 2)
            self.norm = nn.RMSNorm(6, eps=1e-5)
            self.lstm = nn.LSTM(6, 5, batch_first=True)
            self.gru = nn.GRU(5, 4, batch_first=True)
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            x = self.norm(self.patches(x).flatten(2).transpose(1, 2))
            states, _ = self.lstm(x)
            out, hidden = self.gru(states)
            return self.fc(out[:, -1])
"""
AVERAGED = RECURRENT.replace("out[:, -1]", "out.mean(1)")
DEEP = RECURRENT.replace("5, 4, batch", "5, 4, num_layers=2, dropout=0.3, batch")
DIRECTIONS = RECURRENT.replace("5, 4, batch", "5, 2, bidirectional=True, batch")
DEEP_DIRECTIONS = DIRECTIONS.replace("bidirectional", "num_layers=2, bidirectional").replace(
    "out[:, -1]", "out.mean(1)"
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (RECURRENT, "conv2d tokens rms_norm lstm gru dense"),
        (AVERAGED, "conv2d tokens rms_norm lstm gru mean_token dense"),
        (DEEP, "conv2d tokens rms_norm lstm gru dropout gru dense"),
        (DIRECTIONS, "conv2d tokens rms_norm lstm gru reverse gru first_token dense"),
        (
            DEEP_DIRECTIONS,
            "conv2d tokens rms_norm lstm gru reverse gru reverse gru reverse gru reverse"
            " mean_token dense",
        ),
    ],
)
def test_recurrent_layers_have_all_states_or_the_last(
    imported: Import, code: str, expected: str
) -> None:
    found = imported(code)
    assert all_kinds(found) == expected.split()
    named = (*found.architecture.parameters(), *found.architecture.statistics())
    assert {each.name: each.shape for each in named} == {
        name: values.shape for name, values in found.own.weights.items()
    }
    assert "the two biases of an LSTM" in found.notes[-1]


def test_a_decoder_has_a_class_for_each_pixel(imported: Import) -> None:
    found = imported(UNET)
    assert all_kinds(found) == [
        *("conv2d", "group_norm", "max_pool2d", "conv2d_transposed", "group_norm"),
        *("upsample", "conv2d", "upsample", "tokens"),
    ]
    assert found.architecture.positions == (16 * 32,) and found.architecture.classes == 2
    assert found.own.logits.shape == (32, 16 * 32, 2)
    assert "a class for each of its pixels" in found.notes[-1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "nn.Conv2d(3, 4, 3, padding_mode='reflect')",
            r"Conv2d at layer, input \[3, 8, 8\]: padding_mode='reflect'",
        ),
        ("nn.ConstantPad2d(1, 2.0)", "value=2: a padding is with zeros"),
        ("nn.Softplus()", "Softplus at layer, input .*: no layer is this module"),
        ("nn.BatchNorm2d(3, affine=False)", "a batch norm has a scale"),
        ("nn.AvgPool2d(3, ceil_mode=True)", "whole windows"),
        ("nn.AdaptiveAvgPool2d(5)", "the windows have several sizes"),
        ("nn.MaxPool2d(2, dilation=2)", "dilation=2"),
        ("nn.LayerNorm([8, 8])", "over the last axis"),
        ("nn.GroupNorm(3, 3, affine=False)", "a scale and a bias"),
        ("nn.InstanceNorm2d(3)", "a scale and a bias"),
        ("nn.ConvTranspose2d(3, 3, 3, groups=3)", "one group and no dilation"),
        ("nn.Upsample(scale_factor=1.5)", "by whole factors"),
        ("nn.Upsample(scale_factor=2, mode='bicubic')", "mode='bicubic'"),
        ("nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)", "align_corners=True"),
    ],
)
def test_what_no_layer_is_is_named(imported: Import, body: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = {body}

                def forward(self, x):
                    return self.layer(x).flatten(1)
        """)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("x + 1", "add at add, .*: a sum is that of two tensors"),
        ("x.transpose(1, 2)", "transpose at transpose"),
        ("x + self.scale", r"a tensor of the module, \(3, 1, 1\), that is no parameter"),
        ("x.permute(0, 2, 3, 1).flip(1)", "flip at flip, .*: no layer is this operation"),
        ("F.max_pool2d(x.permute(0, 2, 3, 1), 2)", "another order of axes"),
        ("self.fc(self.fc(x.flatten(1)))", "shared weights have no layer"),
        ("self.rows(x.flatten(2))[1]", r"outputs x\[:, -1\] are taken"),
        ("self.rows(x.flatten(2))[0][:, -1]", "an LSTM or GRU has batch_first"),
        ("torch.cat([x.flatten(2)] * 2, 1)", "axis 1: a concatenation is along channels or feat"),
    ],
)
def test_operations_are_named_too(imported: Import, expression: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3, 1, 1))
                    self.fc = nn.Linear(192, 192)
                    self.rows = nn.GRU(64, 4, bias=False, batch_first=True)

                def forward(self, x):
                    return ({expression}).flatten(1)
        """)


BLOCK = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(
                nn.Conv2d(3, 3, 7, padding=3, groups=3), Permute(0, 2, 3, 1), nn.LayerNorm(3),
                nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 3), Permute(0, 3, 1, 2))
            self.scale = nn.Parameter(torch.full((3, 1, 1), 1e-6))
            self.fc = nn.Linear(192, 4)

        def forward(self, x):
            return self.fc((x + self.scale * self.block(x)).flatten(1))

    class Permute(nn.Module):
        def __init__(self, *order):
            super().__init__()
            self.order = order

        def forward(self, x):
            return torch.permute(x, self.order)
"""
SHUFFLE = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 4, 1)
            self.conv = nn.Conv2d(2, 2, 3, padding=1)
            self.fc = nn.Linear(256, 4)

        def forward(self, x):
            left, right = self.first(x).chunk(2, dim=1)
            x = torch.cat((left, self.conv(right)), dim=1)
            x = x.view(-1, 2, 2, 8, 8)
            x = torch.transpose(x, 1, 2).contiguous()
            return self.fc(x.view(-1, 4, 8, 8).flatten(1))
"""
TRANSFORMER = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4)
            self.token = nn.Parameter(torch.zeros(1, 1, 8))
            self.positions = nn.Parameter(torch.zeros(1, 5, 8))
            self.norm = nn.LayerNorm(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            n = x.shape[0]
            x = self.patches(x).reshape(n, 8, 4).permute(0, 2, 1)
            x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.positions
            y = self.norm(x)
            y, _ = self.attention(y, y, y, need_weights=False)
            return self.fc((x + y)[:, 0])
"""


def all_kinds(found: Imported) -> list[str]:
    return [layer.kind for layer in found.architecture.leaves()]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (BLOCK, "conv2d layer_norm conv2d gelu conv2d scale flatten dense"),
        (SHUFFLE, "conv2d channel_slice channel_slice conv2d channel_shuffle flatten dense"),
        (
            TRANSFORMER,
            "conv2d tokens class_token position_embedding layer_norm self_attention first_token"
            " dense",
        ),
    ],
)
def test_changes_of_axes_are_parts_of_layers(imported: Import, code: str, expected: str) -> None:
    found = imported(code)
    assert all_kinds(found) == expected.split()
    named = (*found.architecture.parameters(), *found.architecture.statistics())
    assert {each.name: each.shape for each in named} == {
        name: values.shape for name, values in found.own.weights.items()
    }


@pytest.mark.parametrize(
    ("body", "padding", "extra"),
    [
        ("nn.Conv2d(3, 4, 4, padding='same')", (1, 1), (1, 1)),
        ("nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3, 2))", (0, 0), (1, 1)),
        ("nn.Sequential(nn.ZeroPad2d(2), nn.Conv2d(3, 4, 3, padding=1))", (3, 3), (0, 0)),
        ("nn.AvgPool2d(3, padding=1, count_include_pad=False)", (1, 1), (0, 0)),
        ("nn.Sequential(nn.ReLU(), nn.ZeroPad2d(1), nn.MaxPool2d(3, 2))", (1, 1), (0, 0)),
    ],
)
def test_padding_of_four_sides(
    imported: Import, body: str, padding: tuple[int, int], extra: tuple[int, int]
) -> None:
    found = imported(f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = {body}

            def forward(self, x):
                return self.layer(x).flatten(1)
    """)
    layer = next(each for each in found.architecture.layers if each.kind != "relu")
    assert (layer.padding, layer.extra_padding) == (padding, extra)  # type: ignore[attr-defined]
    assert getattr(layer, "count_padding", False) is False


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Net = 3", "not callable"),
        ("class Net:\n    pass", "not a torch.nn.Module"),
        ("import no_such_module", "No module named"),
        ("def Net(", "SyntaxError"),
        (
            f"{MODULE}        return x if x.sum() > 0 else -x\n",
            "control flow",
        ),
    ],
)
def test_code_that_fails_is_one_line(imported: Import, code: str, reason: str) -> None:
    with pytest.raises(EngineError, match=reason) as caught:
        imported(code)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "3x", "3x0x2", "-1", "3,2,2", "1x2x3x4"])
def test_a_shape_is_numbers(text: str) -> None:
    with pytest.raises(UsageError, match="is no shape"):
        reading.shape_of(text)
    assert reading.shape_of("3x224x224") == (3, 224, 224) and reading.shape_of("16") == (16,)
    assert reading.shape_of("3x128") == (3, 128)


def test_a_local_response_norm_has_an_odd_size(imported: Import) -> None:
    code = (
        "net = nn.Sequential(nn.LocalResponseNorm({size}, 0.5, 0.6, 2.0), nn.Flatten(),"
        " nn.Linear(192, 3))\n"
    )
    found = imported(code.format(size=5), name="net")
    norm = found.architecture.layers[0]
    assert norm == LocalResponseNorm(name=norm.name, size=5, alpha=0.5, beta=0.6, k=2.0)
    with pytest.raises(ImportRefused, match="size=4: a local response norm has an odd number"):
        imported(code.format(size=4), name="net")


SIGNALS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(2, 6, 5, stride=2, padding=2, dilation=1)
            self.norm = nn.BatchNorm1d(6)
            self.pool = nn.MaxPool1d(3, 2, padding=1)
            self.grouped = nn.Conv1d(6, 6, 3, padding="same", groups=3, dilation=2)
            self.causal = nn.Conv1d(6, 6, 4, padding=3)
            self.up = nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1)
            self.average = nn.AvgPool1d(2)
            self.mean = nn.AdaptiveAvgPool1d(1)
            self.fc = nn.Linear(4, 5)

        def forward(self, x):
            x = self.pool(F.relu(self.norm(self.conv(x))))
            x = x + self.grouped(x)
            x = torch.cat([F.relu(self.causal(x)[:, :, :-3]), x], 1)[:, :, 1:]
            x = self.average(self.up(x.chunk(2, dim=1)[0]))
            return self.fc(self.mean(x).squeeze(-1))
"""


def test_signals_are_images_of_height_one(imported: Import) -> None:
    found = imported(SIGNALS, shape=(2, 40))
    assert found.architecture.input_shape == (2, 1, 40)
    assert found.own.inputs.shape == (32, 2, 1, 40) and found.own.logits.shape == (32, 5)
    assert kinds(found) == [
        *("conv2d", "batch_norm", "relu", "max_pool2d", "add", "concat", "cropping2d"),
        *("channel_slice", "conv2d_transposed", "avg_pool2d", "global_avg_pool2d", "dense"),
    ]
    for each in found.architecture.parameters():
        assert found.own.weights[each.name].shape == each.shape


def test_a_class_for_each_place_of_a_signal(imported: Import) -> None:
    code = "net = nn.Sequential(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 3, 1))\n"
    found = imported(code, shape=(2, 16), name="net")
    assert kinds(found) == ["conv2d", "relu", "conv2d", "tokens"]
    assert found.own.logits.shape == (32, 16, 3) and found.architecture.positions == (16,)


def test_a_signal_becomes_a_sequence(imported: Import) -> None:
    found = imported(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(2, 6, 3)
                self.cell = nn.GRU(6, 4, batch_first=True)

            def forward(self, x):
                return self.cell(F.max_pool1d(self.conv(x), 2).transpose(1, 2))[0][:, -1]
        """,
        shape=(2, 20),
    )
    assert kinds(found) == ["conv2d", "max_pool2d", "tokens", "gru"]


def test_a_sequence_is_the_rows_of_an_image(imported: Import) -> None:
    found = imported(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRU(6, 4, batch_first=True)

            def forward(self, x):
                return self.cell(x)[0][:, -1]
        """,
        shape=(9, 6),
    )
    assert kinds(found) == ["rows", "gru"] and found.architecture.input_shape == (1, 9, 6)
    assert found.own.inputs.shape == (32, 1, 9, 6)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("x.transpose(0, 1)", "transpose at transpose"),
        ("x[:, :, ::2]", "the first member of a sequence, or the last state"),
        ("x.reshape(-1, 4, 10)", "images become features only"),
        ("self.conv(x.mean(1, keepdim=True))", "a mean is over height and width"),
    ],
)
def test_other_operations_of_signals_are_refused(
    imported: Import, expression: str, reason: str
) -> None:
    with pytest.raises(ImportRefused, match=reason):
        imported(
            f"""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv1d(1, 2, 3)
                    self.first = nn.Conv1d(2, 2, 1)

                def forward(self, x):
                    x = self.first(x)
                    return ({expression}).flatten(1)
            """,
            shape=(2, 20),
        )


def test_shapes_are_numbers_while_a_module_is_traced(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 4, 3, 2, bias=False)
                self.norm = nn.BatchNorm2d(4, momentum=0.2)
                self.end = nn.Linear(4, 5)

            def forward(self, x, mask=None):
                extra = -(-x.shape[2] // 2) * 2 + 1 - x.shape[2]
                if extra > 0:
                    x = F.pad(x, (0, extra, 0, extra))
                x = F.conv2d(x, self.conv.weight, None, self.conv.stride)
                norm = self.norm
                x = F.batch_norm(
                    x, norm.running_mean, norm.running_var, norm.weight, norm.bias,
                    self.training, norm.momentum, norm.eps)
                x = torch.cat([x[:, :3], x[:, 3:]], 1)[:, :, :x.shape[2]]
                return F.linear(x.mean((2, 3)), self.end.weight, self.end.bias)
    """)
    assert kinds(found) == ["conv2d", "batch_norm", "concat", "global_avg_pool2d", "dense"]
    conv, norm, *_ = found.architecture.layers
    assert conv.extra_padding == (1, 1) and norm.momentum == 0.2  # type: ignore[attr-defined]
    assert set(found.own.weights) >= {each.name for each in found.architecture.parameters()}
    assert found.changed.weights["batch_norm.mean"].all()  # those of the batch


ATTENTION = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

        def forward(self, x):
            x = x.flatten(2).transpose(1, 2)
            B, N, C = x.shape
            q, k, v = {parts}
            x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out({end}).mean(1)
"""


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        (
            "self.inputs(x).reshape(B, N, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)",
            "x.transpose(1, 2).reshape(B, N, C)",
        ),
        (
            "self.inputs(x).view(B, N, 2, 9).transpose(1, 2).chunk(3, dim=-1)",
            "x.permute(0, 2, 1, 3).flatten(2)",
        ),
    ],
)
def test_attention_of_its_own_product_is_a_layer(imported: Import, parts: str, end: str) -> None:
    """Also where each head has its queries, keys and values side by side."""
    found = imported(ATTENTION.format(parts=parts, end=end), shape=(6, 2, 2))
    assert kinds(found) == ["tokens", "self_attention", "mean_token"]
    attention = found.architecture.layers[1]
    assert (attention.heads, attention.causal) == (2, True)  # type: ignore[attr-defined]
    weight = found.own.weights["out.in_weight"]
    assert weight.shape == (18, 6)
    x = found.own.inputs.reshape(32, 6, 4).transpose(0, 2, 1).astype(np.float64)
    assert found.own.logits == pytest.approx(attended(x, found.own.weights), abs=1e-12)


def attended(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The mean over the members of causal attention with two heads, as the layer defines it."""
    values = x @ weights["out.in_weight"].T + weights["out.in_bias"]
    q, k, v = (
        each.reshape(*x.shape[:2], 2, -1).transpose(0, 2, 1, 3)
        for each in np.split(values, 3, axis=-1)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(x.shape[1], dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    heads = shares / shares.sum(-1, keepdims=True) @ v
    joined = heads.transpose(0, 2, 1, 3).reshape(x.shape)
    return (joined @ weights["out.out_weight"].T + weights["out.out_bias"]).mean(1)


def test_attention_with_a_mask_is_refused(imported: Import) -> None:
    code = ATTENTION.format(
        parts="self.inputs(x).view(B, N, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)",
        end="x.transpose(1, 2).reshape(B, N, C)",
    ).replace("is_causal=True", "attn_mask=self.out.weight[:4, :4]")
    with pytest.raises(ImportRefused, match="no mask or bias of its scores"):
        imported(code, shape=(6, 2, 2))


WINDOWS = """
    class DropPath(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop_prob = 0.25

        def forward(self, x):
            return x * x.new_empty((len(x), 1, 1, 1)).bernoulli_(0.75) if self.training else x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs, self.out = nn.Linear(4, 12), nn.Linear(4, 4)
            self.table = nn.Parameter(torch.randn(9, 2))
            self.drop = DropPath()
            y, x = (each.flatten() for each in torch.meshgrid(torch.arange(2), torch.arange(2)))
            rows = (y[:, None] - y + 1) * 3 + x[:, None] - x + 1
            self.register_buffer("rows", rows)

        def forward(self, x):
            x = x.permute(0, 2, 3, 1)
            B, H, W, C = x.shape
            shortcut = x
            x = {before}.view(B, H // 2, 2, W // 2, 2, C).permute(0, 1, 3, 2, 4, 5)
            x = x.reshape(-1, 4, C)
            q, k, v = self.inputs(x).reshape(len(x), 4, 3, 2, 2).permute(2, 0, 3, 1, 4).unbind(0)
            scores = (q * 2 ** -0.5) @ k.transpose(-2, -1)
            scores = scores + self.table[self.rows.view(-1)].view(4, 4, 2).permute(2, 0, 1)
            x = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, C))
            x = x.view(B, H // 2, W // 2, 2, 2, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
            x = shortcut + self.drop(x)
            return x.reshape(B, -1, C).reshape(B, H, W, C).mean((1, 2))
"""


def test_attention_in_windows_with_a_table_is_a_layer(imported: Import) -> None:
    found = imported(WINDOWS.format(before="x"), shape=(4, 4, 6))
    assert kinds(found) == ["add", "global_avg_pool2d"]
    join = found.architecture.layers[0]
    assert isinstance(join, Branches)
    attention, drop = max(join.branches, key=len)
    assert (attention.kind, attention.window, attention.shift) == (  # type: ignore[attr-defined]
        *("window_attention", (2, 2)),
        (0, 0),
    )
    assert (drop.kind, drop.rate, drop.whole) == ("dropout", 0.25, True)  # type: ignore[attr-defined]
    table = found.own.weights[f"{attention.name}.table"]
    assert table.shape == (9, 2)


def test_windows_that_do_not_return_to_their_image_are_refused(imported: Import) -> None:
    code = WINDOWS.format(before="torch.roll(x, (-1, -1), (1, 2))")
    with pytest.raises(ImportRefused, match=r"cannot be taken: .*matmul"):
        imported(code, shape=(4, 4, 6))


def test_a_parameter_that_is_reshaped_is_a_scale(imported: Import) -> None:
    found = imported("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gamma = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

            def forward(self, x):
                return x.mul(self.gamma.reshape(1, -1, 1, 1)).mean((2, 3))
    """)
    assert kinds(found) == ["scale", "global_avg_pool2d"]
    assert [*found.own.weights["mul.weight"]] == [1, 2, 3]
