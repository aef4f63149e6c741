// cuDNN's descriptors, destroyed with the object that holds them.
#pragma once

#include <memory>

#include "device.h"
#include "trial.h"
#include "window.h"

namespace dlsuite {

using TensorDescriptor = std::shared_ptr<cudnnTensorStruct>;
using FilterDescriptor = std::shared_ptr<cudnnFilterStruct>;
using ConvolutionDescriptor = std::shared_ptr<cudnnConvolutionStruct>;
using PoolingDescriptor = std::shared_ptr<cudnnPoolingStruct>;
using ActivationDescriptor = std::shared_ptr<cudnnActivationStruct>;

// Float32 values (N, C, height, width) in C order; missing sizes at the end are 1.
TensorDescriptor tensor(const Shape& dims);

// The weights (out, in, height, width) of a convolution.
FilterDescriptor filter(const Shape& dims);

// Throw NotImplementedError where the padding before and after is not the same.
ConvolutionDescriptor convolution_of(const Window& window, const std::optional<bool>& tf32);
PoolingDescriptor pooling_of(const Window& window, bool is_max);

// `activation` is the kind of a layer; empty: the identity.
ActivationDescriptor activation_of(const std::string& activation);

}  // namespace dlsuite
