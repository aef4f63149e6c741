"""LeNet in ONNX Runtime: a graph made of ONNX's nodes."""

from common import run, weights
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
nodes = [
    helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"]),
    helper.make_node("MaxPool", ["conv1"], ["pool1"], **pool),
    helper.make_node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"]),
    helper.make_node("MaxPool", ["conv2"], ["pool2"], **pool),
    helper.make_node("Flatten", ["pool2"], ["flat"]),
    helper.make_node("Gemm", ["flat", "dense1.weight", "dense1.bias"], ["dense1"], transB=1),
    helper.make_node("Relu", ["dense1"], ["relu1"]),
    helper.make_node("Gemm", ["relu1", "dense2.weight", "dense2.bias"], ["logits"], transB=1),
]
graph = helper.make_graph(
    nodes,
    "lenet",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 28])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
    [numpy_helper.from_array(values, name) for name, values in weights().items()],
)
opset = helper.make_opsetid("", 21)
session = InferenceSession(helper.make_model(graph, opset_imports=[opset]).SerializeToString())


def predict(image):
    return session.run(None, {"image": image})[0]


run(predict)
