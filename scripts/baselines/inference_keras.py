"""Inference in Keras, as one would write it by hand."""

from common import model, queries
from latency import serve_calls

serve_calls(model("keras").model.predict_on_batch, queries(channels_last=True))
