"""Inference in MXNet, as one would write it by hand: Gluon, partitioned for oneDNN."""

import mxnet as mx
from common import model, queries
from latency import serve_calls

net = model("mxnet").model
net.initialize(mx.init.MSRAPrelu("in", slope=0))  # as the suite's, see common.py
images = queries()
sample = mx.nd.from_numpy(images[:1])
net.optimize_for(sample, backend="MKLDNN", static_alloc=True, static_shape=True)

serve_calls(lambda image: net(mx.nd.from_numpy(image)).asnumpy(), images)
