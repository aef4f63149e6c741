"""Inference in PyTorch, as one would write it by hand: inference_mode, folded or frozen."""

import torch
from common import VARIANT, model, queries
from latency import serve_calls
from torch import nn
from torch.fx.experimental.optimization import fuse

memory = torch.contiguous_format if VARIANT == "eager" else torch.channels_last
net = model("pytorch").model
with torch.no_grad():
    for values in net.parameters():  # weights as the suite's, see common.py
        if values.dim() > 1:
            nn.init.kaiming_normal_(values)
        else:
            values += 0.1 * torch.randn_like(values)
net = net.eval().requires_grad_(False).to(memory_format=memory)
if VARIANT == "compiled":
    torch._inductor.config.freezing = True
    net = torch.compile(net)
elif any(isinstance(module, nn.BatchNorm2d) for module in net.modules()):
    net = fuse(net)


@torch.inference_mode()
def predict(image):
    return net(torch.from_numpy(image).contiguous(memory_format=memory)).numpy()


serve_calls(predict, queries())
