// A model that oneDNN trains: series of convolutions, inner products, pools, relu and tanh.
#pragma once

#include <functional>

#include "backend.h"
#include "graph.h"
#include "optimizer.h"

namespace dlsuite {

class OneDnnTrainer : public Trainer {
  public:
    // Throw NotImplementedError for a layer that it cannot train.
    OneDnnTrainer(const dnnl::engine& engine, const Trial& trial, const Tensors& weights);

    void train_step(const float* inputs, const std::int32_t* labels) override;
    void synchronize() override {}  // each call returns when its work is done
    float loss() override { return loss_; }
    void predict(const float* inputs, float* logits) override;
    Tensors gradients(const float* inputs, const std::int32_t* labels, float* logits) override;
    Tensors weights() override;
    std::map<std::string, Tensors> optimizer_state() override;
    std::int64_t step_count() override { return optimizer_.step_count(); }

  private:
    // Appends the backward pass of a layer: from the gradient of its result to that of its input.
    using Backward = std::function<dnnl::memory(const dnnl::memory&)>;

    // Append the forward pass of a layer; return its result.
    dnnl::memory lower(const Json& layer, const dnnl::memory& source);
    dnnl::memory convolution(const Json& layer, const dnnl::memory& source);
    dnnl::memory dense(const Json& layer, const dnnl::memory& source);
    template <typename Forward, typename ByWeights, typename ByData>
    dnnl::memory affine(const Json& layer, const dnnl::memory& source, const Shape& kernel,
                        const typename Forward::primitive_desc& forward,
                        const typename ByWeights::primitive_desc& by_weights,
                        const typename ByData::primitive_desc& by_data);
    dnnl::memory pool(const Json& layer, const dnnl::memory& source);
    dnnl::memory global_pool(const dnnl::memory& source);
    dnnl::memory activation(const Json& layer, const dnnl::memory& source);
    dnnl::memory local_response_norm(const Json& layer, const dnnl::memory& source);
    void loss_layer(const dnnl::memory& source);

    std::size_t add_parameter(const std::string& name, const Shape& dims,
                              const dnnl::memory::desc& desc);
    void compute(const float* inputs, const std::int32_t* labels);
    Tensors all(const std::function<dnnl::memory(const Parameter&)>& values) const;

    Graph forward_, backward_;
    Optimizer optimizer_;
    const Tensors& initial_;  // only while the trainer is built
    std::vector<Parameter> parameters_;
    std::vector<Backward> backwards_;
    dnnl::memory logits_, log_probabilities_, loss_gradient_;
    Shape logits_shape_;
    float loss_ = 0;
};

}  // namespace dlsuite
