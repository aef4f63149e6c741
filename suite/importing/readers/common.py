"""What all readers have in common."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Layer = dict[str, Any]


class Refused(Exception):
    """An operation that is none of the layers; the text says what would be needed."""


class FileRefused(Exception):
    """A file that cannot be taken, whatever its operations are; the text says why."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def answer(main: Callable[[dict[str, Any]], None]) -> None:
    """Run a reader with the request of the command line; a refused file is an answer too."""
    request = json.loads(Path(sys.argv[1]).read_text())
    try:
        main(request)
    except FileRefused as error:
        values = {"refused": str(error), "hint": error.hint}
        _write_graph(Path(request["folder"]), values)


# Of a softmax or its logarithm at the end, which is a part of the loss.
ENDING = "the {} at the end is left out: it is a part of the loss"


def write(folder: Path, graph: dict[str, Any], inputs: Any) -> None:
    """Write graph.json and inputs.npy."""
    np.save(folder / "inputs.npy", inputs)
    _write_graph(folder, graph)


def _write_graph(folder: Path, values: dict[str, Any]) -> None:
    (folder / "graph.json").write_text(json.dumps(values, indent=1))


def write_refusals(folder: Path, refusals: list[dict[str, Any]]) -> None:
    """Write a graph.json with the operations that cannot be taken."""
    _write_graph(folder, {"refusals": refusals})


def write_results(folder: Path, name: str, weights: dict[str, Any], logits: Any) -> None:
    """Write NAME_weights.npz (float64, by layer and role) and NAME_logits.npy (float64).

    `own` are those of the file. `changed` are those with noise in all weights: a network that
    begins with zeros, as the last layer of a vision transformer, shows nothing without it.
    """
    np.savez(folder / f"{name}_weights.npz", **weights)
    np.save(folder / f"{name}_logits.npy", np.asarray(logits, np.float64))


def flat(results: Any) -> Any:
    """The results; images (N, classes, 1, 1) as (N, classes)."""
    one_pixel = results.ndim == 4 and tuple(results.shape[2:]) == (1, 1)
    return results.reshape(len(results), -1) if one_pixel else results


def flatten_at_the_end(nodes: list[Layer]) -> None:
    """Add what `flat` does to the results to the nodes."""
    nodes.append({"name": "flat", "inputs": [nodes[-1]["name"]], "layer": {"kind": "flatten"}})


def part_of(layer: int, direction: int, layers: int, both: bool) -> str:
    """The end of the name of a part of a recurrent layer; empty where it is the whole."""
    if not both and layer == layers - 1:
        return ""
    return f"_{layer}" + ("_back" if direction else "")


def noise(values: Any, random: np.random.Generator) -> Any:
    """Noise for the weights of a layer, of half their own spread where they have one."""
    if values.ndim < 2 or values[0].size == 1:
        scale = 0.2
    else:
        scale = 0.5 * float(values.std()) or math.sqrt(2 / values[0].size)
    return scale * random.standard_normal(values.shape)


def lively_noise(values: Any, random: np.random.Generator) -> Any:
    """Noise by which a signal neither vanishes nor grows in a network without norms (He 2015)."""
    large = values.ndim > 1 and values[0].size > 1
    scale = math.sqrt(2 / values[0].size) if large else 0.05
    return scale * random.standard_normal(values.shape)


def random_inputs(request: dict[str, Any], shape: Sequence[int]) -> Any:
    """The inputs of the comparison, float32 (samples, *shape)."""
    random = np.random.default_rng(request["seed"])
    return random.standard_normal((request["samples"], *shape)).astype(np.float32)


def as_name(text: str, used: set[str]) -> str:
    """A name of a layer that is not in `used`."""
    text = "".join(each if each.isascii() and each.isalnum() else "_" for each in text.lower())
    text = text.strip("_")
    text = text if text[:1].isalpha() else f"layer{text}"
    while text in used:
        text += "_again"
    return text


def pair(value: Any) -> list[int]:
    """One number as two."""
    return [int(value)] * 2 if isinstance(value, int) else [int(each) for each in value]


def of_signal(value: Any, height: int) -> list[int]:
    """The numbers of height and width for one number along a signal, an image of height 1."""
    (width,) = value if isinstance(value, (tuple, list)) else (value,)
    return [height, int(width)]


def sides(top: int, bottom: int, left: int, right: int) -> Layer:
    """The fields of a window's padding; Refused where there is more of it at the start."""
    if bottom < top or right < left:
        raise Refused(
            f"padding {top}, {bottom}, {left}, {right}: at most as much above as below, and at"
            " most as much on the left as on the right"
        )
    return {"padding": [top, left], "extra_padding": [bottom - top, right - left]}


def same_sides(size: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Top, bottom, left, right of the padding SAME of TensorFlow; kernels with their dilation."""
    found = []
    for extent, window, step in zip(size, kernel, stride, strict=True):
        total = max((math.ceil(extent / step) - 1) * step + window - extent, 0)
        found += [total // 2, total - total // 2]
    return found


def pad(top: int, bottom: int, left: int, right: int) -> Layer | None:
    """A padding with zeros, None where there is none."""
    found = [int(each) for each in (top, bottom, left, right)]
    if min(found) < 0:
        raise Refused(f"padding {found}: it cuts off a part")
    return {"kind": "pad", "sides": found} if any(found) else None


def simple(kind: str) -> Callable[..., Layer]:
    """What makes a layer without fields."""
    return lambda *_: {"kind": kind}


def whole_pool(shape: Sequence[int]) -> Layer:
    """The mean over the height and width of an image (channels, height, width), which stay."""
    size = list(shape[1:])
    return {"kind": "avg_pool2d", "kernel": size, "stride": size, "padding": [0, 0]}


def flattened(before: Sequence[int], after: Sequence[int]) -> Layer | None:
    """A reshape as a flatten."""
    if tuple(before) == tuple(after):
        return None
    if len(before) == 3 and tuple(after) == (math.prod(before),):
        return {"kind": "flatten"}
    raise Refused(f"{tuple(before)} to {tuple(after)}: images become features only")
