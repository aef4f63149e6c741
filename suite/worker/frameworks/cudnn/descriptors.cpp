#include "descriptors.h"

#include "errors.h"

namespace dlsuite {

namespace {

int size_at(const Shape& dims, std::size_t axis) {
    return axis < dims.size() ? static_cast<int>(dims[axis]) : 1;
}

void require_symmetry(const Window& window) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
        // Less padding after than before is a remainder that no window reaches.
        if (window.after[axis] > window.before[axis]) {
            throw NotImplementedError("cuDNN has no pool that keeps an incomplete last window");
        }
    }
}

}  // namespace

TensorDescriptor tensor(const Shape& dims) {
    cudnnTensorDescriptor_t made = nullptr;
    check(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
    TensorDescriptor result(made, cudnnDestroyTensorDescriptor);
    check(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, size_at(dims, 0),
                                     size_at(dims, 1), size_at(dims, 2), size_at(dims, 3)),
          "cudnnSetTensor4dDescriptor");
    return result;
}

FilterDescriptor filter(const Shape& dims) {
    cudnnFilterDescriptor_t made = nullptr;
    check(cudnnCreateFilterDescriptor(&made), "cudnnCreateFilterDescriptor");
    FilterDescriptor result(made, cudnnDestroyFilterDescriptor);
    check(cudnnSetFilter4dDescriptor(made, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, size_at(dims, 0),
                                     size_at(dims, 1), size_at(dims, 2), size_at(dims, 3)),
          "cudnnSetFilter4dDescriptor");
    return result;
}

ConvolutionDescriptor convolution_of(const Window& window, const std::optional<bool>& tf32) {
    require_symmetry(window);
    cudnnConvolutionDescriptor_t made = nullptr;
    check(cudnnCreateConvolutionDescriptor(&made), "cudnnCreateConvolutionDescriptor");
    ConvolutionDescriptor result(made, cudnnDestroyConvolutionDescriptor);
    const int height = size_at(window.before, 0), width = size_at(window.before, 1);
    check(cudnnSetConvolution2dDescriptor(made, height, width, size_at(window.stride, 0),
                                          size_at(window.stride, 1), 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    // cuDNN's default permits TF32.
    const auto math = tf32.value_or(true) ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    check(cudnnSetConvolutionMathType(made, math), "cudnnSetConvolutionMathType");
    return result;
}

PoolingDescriptor pooling_of(const Window& window, bool is_max) {
    require_symmetry(window);
    cudnnPoolingDescriptor_t made = nullptr;
    check(cudnnCreatePoolingDescriptor(&made), "cudnnCreatePoolingDescriptor");
    PoolingDescriptor result(made, cudnnDestroyPoolingDescriptor);
    const auto mode = is_max ? CUDNN_POOLING_MAX : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    check(cudnnSetPooling2dDescriptor(made, mode, CUDNN_PROPAGATE_NAN, size_at(window.kernel, 0),
                                      size_at(window.kernel, 1), size_at(window.before, 0),
                                      size_at(window.before, 1), size_at(window.stride, 0),
                                      size_at(window.stride, 1)),
          "cudnnSetPooling2dDescriptor");
    return result;
}

ActivationDescriptor activation_of(const std::string& activation) {
    cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
    if (activation == "relu") mode = CUDNN_ACTIVATION_RELU;
    if (activation == "tanh") mode = CUDNN_ACTIVATION_TANH;
    cudnnActivationDescriptor_t made = nullptr;
    check(cudnnCreateActivationDescriptor(&made), "cudnnCreateActivationDescriptor");
    ActivationDescriptor result(made, cudnnDestroyActivationDescriptor);
    check(cudnnSetActivationDescriptor(made, mode, CUDNN_PROPAGATE_NAN, 0.0),
          "cudnnSetActivationDescriptor");
    return result;
}

}  // namespace dlsuite
