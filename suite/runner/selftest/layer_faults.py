"""Faults of single layers, in models that have them."""

from __future__ import annotations

from suite.runner.selftest.faults import Fault

# In a model of decoders of images.
DECODER_FAULTS = (
    Fault(
        name="one group norm over the whole image",
        framework="jax",
        file="frameworks/jax/layers.py",
        right='num_groups=layer["groups"]',
        wrong="num_groups=1",
    ),
    Fault(
        name="interpolation between aligned corners",
        framework="mxnet",
        file="frameworks/mxnet/layers.py",
        right='"align_corners": False',
        wrong='"align_corners": True',
    ),
    Fault(
        name="a transposed convolution shifted by one",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right='(slice(pad, n - pad) for n, pad in zip(sizes, layer["padding"]))',
        wrong="""(
        slice(2 * pad, n) for n, pad in zip(sizes, layer["padding"])
    )""",
    ),
    Fault(
        name="group norm with another epsilon",
        framework="pytorch",
        file="frameworks/pytorch/layers.py",
        right='nn.GroupNorm(layer["groups"], layer["channels"], eps=layer["epsilon"])',
        wrong='nn.GroupNorm(layer["groups"], layer["channels"], eps=1e-3)',
    ),
)
# In a model of local response norms.
RESPONSE_FAULTS = (
    Fault(
        name="a local response norm whose alpha is not divided by its size",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right='"alpha": layer["alpha"] / size',
        wrong='"alpha": layer["alpha"]',
    ),
)
# In a model of attention as in large language models, and of recurrent layers.
ATTENTION_FAULTS = (
    Fault(
        name="rotations of halves and of neighbours exchanged",
        framework="pytorch",
        file="frameworks/pytorch/attention.py",
        right="self._interleaved = interleaved",
        wrong="self._interleaved = not interleaved",
    ),
    Fault(
        name="positions counted from the end",
        framework="jax",
        file="attention.py",
        right='np.outer(np.arange(layer["input_shape"][0]), rates)',
        wrong='np.outer(np.arange(layer["input_shape"][0])[::-1], rates)',
    ),
    Fault(
        name="heads of keys used by the wrong heads of queries",
        framework="tensorflow",
        file="frameworks/tensorflow/attention.py",
        right="tf.repeat(each, repeats, 1)",
        wrong="tf.tile(each, [1, repeats, 1, 1])",
    ),
    Fault(
        name="a GRU without its reset gate",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right="tf.tanh(of_input[2] + reset * of_hidden[2])",
        wrong="tf.tanh(of_input[2] + of_hidden[2])",
    ),
    Fault(
        name="an RMS norm that subtracts the mean",
        framework="mxnet",
        file="frameworks/mxnet/layers.py",
        right="square = F.mean(F.square(sequence), axis=-1, keepdims=True)",
        wrong="""\
sequence = F.broadcast_sub(sequence, F.mean(sequence, axis=-1, keepdims=True))
        square = F.mean(F.square(sequence), axis=-1, keepdims=True)""",
    ),
)
# In a model of sequences with padding.
PADDED_FAULTS = (
    Fault(
        name="attention to padding",
        framework="tensorflow",
        file="frameworks/tensorflow/layers.py",
        right="self_attention(x, layer, own, cast, through.masks[causal])",
        wrong="self_attention(x, layer, own, cast)",
    ),
    Fault(
        name="a mean over padding too",
        framework="jax",
        file="frameworks/jax/layers.py",
        right="sequence.mean(1, where=masks[False][:, 0, 0, :, None])",
        wrong="sequence.mean(1)",
    ),
)
LAYER_FAULTS = (*DECODER_FAULTS, *RESPONSE_FAULTS, *ATTENTION_FAULTS, *PADDED_FAULTS)
