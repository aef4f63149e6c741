"""GPT-2 (Radford et al. 2019) on bytes: pre-norm blocks, causal attention, a tied head, no dropout.

Its vocabulary is the 256 bytes instead of 50,257 tokens, and its GELU is exact instead of
approximated. `gpt_small` has the size of the smallest GPT-2: 86,039,040 parameters, which are the
124,439,808 of GPT-2 less the embeddings of 50,001 tokens. `gpt_mini` and `gpt_tiny` have the sizes
of gpt-mini and gpt-nano in karpathy/minGPT, with shorter sequences.
"""

from suite.models.architecture import Architecture
from suite.models.layers import LayerNorm
from suite.models.sequences import Embedding, PositionEmbedding, TiedHead
from suite.models.transformer import block

BYTES = 256
EPSILON = 1e-5


def gpt_tiny() -> Architecture:
    return _architecture("gpt_tiny", length=64, blocks=3, features=48, heads=3)


def gpt_mini() -> Architecture:
    return _architecture("gpt_mini", length=256, blocks=6, features=192, heads=6)


def gpt_small() -> Architecture:
    return _architecture("gpt_small", length=1024, blocks=12, features=768, heads=12)


def _architecture(
    name: str, *, length: int, blocks: int, features: int, heads: int
) -> Architecture:
    layers = (
        Embedding(name="tokens", vocabulary=BYTES, features=features),
        PositionEmbedding(name="positions", length=length, features=features),
        *(
            layer
            for number in range(blocks)
            for layer in block(f"block{number}", features, heads, epsilon=EPSILON, causal=True)
        ),
        LayerNorm(name="norm", features=features, epsilon=EPSILON),
        TiedHead(name="head", embedding="tokens", vocabulary=BYTES, features=features),
    )
    return Architecture(name=name, input_shape=(length,), classes=BYTES, layers=layers)
