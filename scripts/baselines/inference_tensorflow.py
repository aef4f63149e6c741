"""Inference in TensorFlow, as one would write it by hand: a frozen function, or one of XLA."""

from common import VARIANT, model, queries
from compiled_tensorflow import compiled
from latency import serve_calls

images = queries(channels_last=True)
serve_calls(compiled(model("tensorflow").model, images, xla=VARIANT == "xla"), images)
