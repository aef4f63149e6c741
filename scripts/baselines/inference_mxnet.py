"""Inference in MXNet, as one would write it by hand: Gluon, hybridized with static memory."""

import mxnet as mx
from common import model, queries
from latency import serve_calls

net = model("mxnet").model
net.initialize(mx.init.Xavier())
net.hybridize(static_alloc=True, static_shape=True)

serve_calls(lambda image: net(mx.nd.array(image)).asnumpy(), queries())
