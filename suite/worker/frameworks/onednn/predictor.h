// A model in its inference form.
#pragma once

#include "backend.h"
#include "graph.h"

namespace dlsuite {

class OneDnnPredictor : public Predictor {
  public:
    OneDnnPredictor(const dnnl::engine& engine, const Trial& trial, const Tensors& weights,
                    const Tensors& statistics);

    void predict(const float* inputs, float* logits) override;

  private:
    Graph graph_;
    dnnl::memory logits_;  // (batch_size, classes) in C order
    std::size_t size_bytes_;
};

}  // namespace dlsuite
