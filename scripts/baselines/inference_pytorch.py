"""Inference in PyTorch, as one would write it by hand: folded, in inference_mode, or frozen."""

import torch
from common import VARIANT, model, queries
from latency import serve_calls
from torch.fx.experimental.optimization import fuse

memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
net = model("pytorch").model.eval().requires_grad_(False).to(memory_format=memory)
if VARIANT in ("eager", "channels_last"):
    net = fuse(net)
else:
    torch._inductor.config.freezing = True
    net = torch.compile(net)


@torch.inference_mode()
def predict(image):
    return net(torch.from_numpy(image).contiguous(memory_format=memory)).numpy()


serve_calls(predict, queries())
