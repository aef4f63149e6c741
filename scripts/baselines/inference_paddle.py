"""Inference in PaddlePaddle, as one would write it by hand: eager, or its inference engine."""

import os
import tempfile

import paddle
from common import VARIANT, model, queries
from latency import serve_calls
from paddle import inference, nn

images, threads = queries(), int(os.environ["OMP_NUM_THREADS"])
paddle.base.core.set_num_threads(threads)
# Weights as the suite's, see common.py.
nn.initializer.set_global_initializer(nn.initializer.KaimingNormal(), nn.initializer.Constant())
net = model("paddle").model
net.eval()


@paddle.no_grad()
def eager(image):
    return net(paddle.to_tensor(image)).numpy()


def engine():
    """The call of the saved model in PaddlePaddle's engine."""
    shape = paddle.static.InputSpec((1, *images.shape[1:]), "float32")
    with tempfile.TemporaryDirectory() as folder:
        paddle.jit.save(net, f"{folder}/model", input_spec=[shape])
        config = inference.Config(folder, "model")
        config.enable_mkldnn()
        config.set_cpu_math_library_num_threads(threads)
        predictor = inference.create_predictor(config)
    given = predictor.get_input_handle(predictor.get_input_names()[0])
    found = predictor.get_output_handle(predictor.get_output_names()[0])

    def call(image):
        given.copy_from_cpu(image)
        predictor.run()
        return found.copy_to_cpu()

    return call


serve_calls(engine() if VARIANT == "static" else eager, images)
