// A model in its inference form on a GPU: a series of calls of cuDNN and cuBLAS.
#pragma once

#include <functional>

#include "backend.h"
#include "descriptors.h"

namespace dlsuite {

class CudnnPredictor : public Predictor {
  public:
    // Throw NotImplementedError for a layer that the worker does not lower.
    CudnnPredictor(Device& device, const Trial& trial, const Tensors& weights,
                   const Tensors& statistics);

    void predict(const float* inputs, float* logits) override;

  private:
    // The result of a layer: values in C order. Rows are (N, features).
    struct Value {
        BufferPointer memory;
        Shape dims;
    };

    Value series(const Trial& trial, Value value);
    Value convolution(const Json& layer, const Json* norm, const std::string& activation,
                      const Value& value);
    Value dense(const Json& layer, const Value& value);
    Value pool(const Json& layer, const Value& value);
    void add_bias(const std::vector<float>& bias, const Value& value);
    void activate(const std::string& kind, const Value& value);
    Value empty(const Shape& dims);

    Device& device_;
    const Tensors& weights_;     // only while the model is built
    const Tensors& statistics_;  // only while the model is built
    std::optional<bool> tf32_;
    std::vector<std::function<void()>> calls_;
    Value input_, logits_;
};

}  // namespace dlsuite
