"""Training steps captured as one CUDA graph, by the pattern of PyTorch's documentation.

https://docs.pytorch.org/docs/stable/notes/cuda.html, "Whole-network capture".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

Tensors = tuple[torch.Tensor, torch.Tensor]  # the inputs and labels of a stack of batches
WARM_UP_STEPS = 3  # before a capture; in them, libraries allocate memory and choose algorithms


class Steps:
    """Does one step on each batch of a stack; captured when a number of steps is first done.

    `step` does one step on a batch and returns its loss. `state` returns all tensors that a step
    changes. They must exist before the first step, and stay the same objects.
    """

    def __init__(
        self, step: Callable[[Tensors], torch.Tensor], state: Callable[[], Iterable[torch.Tensor]]
    ) -> None:
        self._step = step
        self._state = state
        self._captured: dict[int, tuple[Any, Tensors, torch.Tensor]] = {}

    def __call__(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of the last step; the next call with as many steps overwrites it."""
        if len(labels) not in self._captured:
            self._captured[len(labels)] = self._capture(images, labels)
        replay, (images_in, labels_in), loss = self._captured[len(labels)]
        images_in.copy_(images)
        labels_in.copy_(labels)
        replay()
        return loss

    def _capture(
        self, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[Callable[[], None], Tensors, torch.Tensor]:
        """A function that replays the steps, the tensors it reads, and the loss it writes."""
        inputs = images.clone(), labels.clone()
        state = [*self._state()]
        before = [tensor.detach().clone() for tensor in state]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_STEPS):
                self._step((inputs[0][0], inputs[1][0]))
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for tensor, values in zip(state, before):
                tensor.copy_(values)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # nothing is computed here
            for batch in zip(*inputs):
                loss = self._step(batch)
        return graph.replay, inputs, loss
