"""The block of a transformer (Vaswani et al. 2017), with the normalizations first."""

from suite.models.branches import Add
from suite.models.layers import Dense, Gelu, Layer, LayerNorm
from suite.models.sequences import SelfAttention


def block(
    name: str, features: int, heads: int, *, epsilon: float = 1e-6, causal: bool = False
) -> tuple[Layer, ...]:
    """Attention and a perceptron of four times the features, each added to its own input."""
    attention = (
        LayerNorm(name=f"{name}_norm1", features=features, epsilon=epsilon),
        SelfAttention(name=f"{name}_attention", features=features, heads=heads, causal=causal),
    )
    perceptron = (
        LayerNorm(name=f"{name}_norm2", features=features, epsilon=epsilon),
        Dense(name=f"{name}_dense1", in_features=features, out_features=4 * features),
        Gelu(name=f"{name}_gelu"),
        Dense(name=f"{name}_dense2", in_features=4 * features, out_features=features),
    )
    return (
        Add(name=f"{name}_add1", branches=((), attention)),
        Add(name=f"{name}_add2", branches=((), perceptron)),
    )
