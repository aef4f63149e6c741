"""ViT-Tiny in Keras, as one would write it by hand."""

from common import PATCH, PATCHES, VIT_BLOCKS, VIT_EPSILON, VIT_FEATURES, VIT_HEADS
from train_keras import keras, train

layers = keras.layers


class Embedding(keras.layers.Layer):
    """A token before the others, and the positions of all."""

    def build(self, shape):
        self.first = self.add_weight((1, 1, VIT_FEATURES), "random_normal")
        self.positions = self.add_weight((PATCHES + 1, VIT_FEATURES), "random_normal")

    def call(self, x):
        first = keras.ops.repeat(self.first, keras.ops.shape(x)[0], axis=0)
        return keras.ops.concatenate([first, x], axis=1) + self.positions


def block(x):
    y = layers.LayerNormalization(epsilon=VIT_EPSILON)(x)
    x = layers.Add()([x, layers.MultiHeadAttention(VIT_HEADS, VIT_FEATURES // VIT_HEADS)(y, y)])
    y = layers.LayerNormalization(epsilon=VIT_EPSILON)(x)
    y = layers.Dense(VIT_FEATURES)(layers.Dense(4 * VIT_FEATURES, activation="gelu")(y))
    return layers.Add()([x, y])


images = keras.Input((224, 224, 3))
x = layers.Conv2D(VIT_FEATURES, PATCH, PATCH)(images)
x = Embedding()(layers.Reshape((PATCHES, VIT_FEATURES))(x))
for _ in range(VIT_BLOCKS):
    x = block(x)
x = layers.LayerNormalization(epsilon=VIT_EPSILON)(x)
model = keras.Model(images, layers.Dense(1000)(x[:, 0]))

if __name__ == "__main__":
    train(model)
