#include "predictor.h"

#include "errors.h"
#include "fold.h"

namespace dlsuite {

namespace {

constexpr float ONE = 1.0f, ZERO = 0.0f;

bool is_activation(const Json& layer) {
    return layer.at("kind") == "relu" || layer.at("kind") == "tanh";
}

const Json* layer_at(const Json& layers, std::size_t index) {
    return index < layers.size() ? &layers[index] : nullptr;
}

std::size_t size_bytes_of(const Shape& dims) {
    return static_cast<std::size_t>(product(dims)) * sizeof(float);
}

}  // namespace

CudnnPredictor::CudnnPredictor(Device& device, const Trial& trial, const Tensors& weights,
                               const Tensors& statistics)
    : device_(device), weights_(weights), statistics_(statistics), tf32_(trial.tf32) {
    input_ = empty(trial.batch_shape());
    logits_ = series(trial, input_);
    if (product(logits_.dims) != product(trial.logits_shape())) {
        throw ValueError("the model has another number of outputs than classes");
    }
    check(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize");
}

void CudnnPredictor::predict(const float* inputs, float* logits) {
    check(cudaMemcpyAsync(input_.memory->values(), inputs, size_bytes_of(input_.dims),
                          cudaMemcpyHostToDevice, device_.stream),
          "cudaMemcpyAsync");
    for (const auto& call : calls_) call();
    check(cudaMemcpyAsync(logits, logits_.memory->values(), size_bytes_of(logits_.dims),
                          cudaMemcpyDeviceToHost, device_.stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize");
}

CudnnPredictor::Value CudnnPredictor::series(const Trial& trial, Value value) {
    const Json& layers = trial.layers;
    for (std::size_t i = 0; i < layers.size();) {
        const Json& layer = layers[i++];
        const std::string kind = layer.at("kind");
        if (kind == "conv2d") {
            const Json* norm = layer_at(layers, i);
            if (norm && norm->at("kind") != "batch_norm") norm = nullptr;
            if (norm) ++i;
            const Json* next = layer_at(layers, i);
            const bool is_fused = next && is_activation(*next);
            if (is_fused) ++i;
            value = convolution(layer, norm, is_fused ? next->at("kind") : Json(""), value);
        } else if (kind == "dense") {
            value = dense(layer, value);
        } else if (kind == "max_pool2d" || kind == "avg_pool2d") {
            value = pool(layer, value);
        } else if (kind == "global_avg_pool2d") {
            value = pool(window_of_all(value.dims), value);
        } else if (is_activation(layer)) {
            activate(kind, value);
        } else if (kind == "flatten") {
            value.dims = {value.dims[0], product(value.dims) / value.dims[0]};
        } else {
            throw NotImplementedError("the cuDNN worker has no layer " + kind);
        }
    }
    return value;
}

CudnnPredictor::Value CudnnPredictor::empty(const Shape& dims) {
    return {std::make_shared<Buffer>(size_bytes_of(dims)), dims};
}

CudnnPredictor::Value CudnnPredictor::convolution(const Json& layer, const Json* norm,
                                                  const std::string& activation,
                                                  const Value& value) {
    const auto [kernel, bias] = folded(layer, norm, weights_, statistics_);
    const auto window = window_of(layer, value.dims);
    const std::int64_t outputs = layer.at("out_channels");
    const Value result = empty({value.dims[0], outputs, window.output[0], window.output[1]});
    const auto weight = std::make_shared<Buffer>(kernel);
    const auto source_desc = tensor(value.dims), result_desc = tensor(result.dims);
    const auto filter_desc =
        filter({outputs, value.dims[1], window.kernel[0], window.kernel[1]});
    const auto desc = convolution_of(window, tf32_);
    cudnnConvolutionFwdAlgoPerf_t found{};
    int count = 0;
    check(cudnnFindConvolutionForwardAlgorithm(device_.cudnn, source_desc.get(), filter_desc.get(),
                                               desc.get(), result_desc.get(), 1, &count, &found),
          "cudnnFindConvolutionForwardAlgorithm");
    // The search also tries TF32, which the descriptor may forbid.
    const auto math = tf32_.value_or(true) ? found.mathType : CUDNN_FMA_MATH;
    check(cudnnSetConvolutionMathType(desc.get(), math), "cudnnSetConvolutionMathType");
    const auto workspace = std::make_shared<Buffer>(found.memory);
    calls_.push_back([=, cudnn = device_.cudnn] {
        check(cudnnConvolutionForward(cudnn, &ONE, source_desc.get(), value.memory->values(),
                                      filter_desc.get(), weight->values(), desc.get(), found.algo,
                                      workspace->bytes(), found.memory, &ZERO, result_desc.get(),
                                      result.memory->values()),
              "cudnnConvolutionForward");
    });
    if (!bias.empty()) add_bias(bias, result);
    if (!activation.empty()) activate(activation, result);
    return result;
}

CudnnPredictor::Value CudnnPredictor::dense(const Json& layer, const Value& value) {
    const std::string name = layer.at("name");
    const int outputs = layer.at("out_features"), inputs = layer.at("in_features");
    const int batch = static_cast<int>(value.dims[0]);
    const Value result = empty({batch, outputs});
    const auto weight = std::make_shared<Buffer>(weights_.at(name + ".weight"));
    const auto math = tf32_.value_or(false) ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
    check(cublasSetMathMode(device_.cublas, math), "cublasSetMathMode");
    calls_.push_back([=, cublas = device_.cublas] {
        // cuBLAS stores by columns: rows (N, out) are its matrix (out, N).
        check(cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, outputs, batch, inputs, &ONE,
                          weight->values(), inputs, value.memory->values(), inputs, &ZERO,
                          result.memory->values(), outputs),
              "cublasSgemm");
    });
    if (layer.at("bias")) add_bias(weights_.at(name + ".bias"), result);
    return result;
}

CudnnPredictor::Value CudnnPredictor::pool(const Json& layer, const Value& value) {
    const auto window = window_of(layer, value.dims);
    const Value result =
        empty({value.dims[0], value.dims[1], window.output[0], window.output[1]});
    const auto desc = pooling_of(window, layer.at("kind") == "max_pool2d");
    const auto source_desc = tensor(value.dims), result_desc = tensor(result.dims);
    calls_.push_back([=, cudnn = device_.cudnn] {
        check(cudnnPoolingForward(cudnn, desc.get(), &ONE, source_desc.get(),
                                  value.memory->values(), &ZERO, result_desc.get(),
                                  result.memory->values()),
              "cudnnPoolingForward");
    });
    return result;
}

void CudnnPredictor::add_bias(const std::vector<float>& bias, const Value& value) {
    const auto values = std::make_shared<Buffer>(bias);
    const auto bias_desc = tensor({1, static_cast<std::int64_t>(bias.size())});
    const auto desc = tensor(value.dims);
    calls_.push_back([=, cudnn = device_.cudnn] {
        check(cudnnAddTensor(cudnn, &ONE, bias_desc.get(), values->values(), &ONE, desc.get(),
                             value.memory->values()),
              "cudnnAddTensor");
    });
}

void CudnnPredictor::activate(const std::string& kind, const Value& value) {
    const auto activation = activation_of(kind);
    const auto desc = tensor(value.dims);
    calls_.push_back([=, cudnn = device_.cudnn] {
        check(cudnnActivationForward(cudnn, activation.get(), &ONE, desc.get(),
                                     value.memory->values(), &ZERO, desc.get(),
                                     value.memory->values()),
              "cudnnActivationForward");
    });
}

}  // namespace dlsuite
