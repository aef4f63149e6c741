// The optimizers (docs/reference/optimizers.md), on weights in the layouts that oneDNN chose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph.h"

namespace dlsuite {

// A weight that training changes, and its gradient in the same layout. Padding is 0 in both.
struct Parameter {
    std::string name;
    Shape dims;  // of the primitive; in C order they are the canonical values
    dnnl::memory weight, gradient;
    std::map<std::string, dnnl::memory> slots;
};

class Optimizer {
  public:
    // Throw NotImplementedError for an unknown optimizer.
    explicit Optimizer(const Json& values);

    // Add the slots, filled with 0, to a parameter.
    void prepare(const Graph& graph, Parameter& parameter) const;

    // Change the weights of all parameters by their gradients.
    void step(std::vector<Parameter>& parameters);

    std::int64_t step_count() const { return steps_; }
    const std::vector<std::string>& slots() const { return slots_; }

  private:
    void update(Parameter& parameter) const;
    void sgd(Parameter& parameter) const;
    void momentum(Parameter& parameter) const;
    void rmsprop(Parameter& parameter) const;
    void adam(Parameter& parameter) const;  // and adamw
    float constant(const char* name) const { return values_.at(name).get<float>(); }

    Json values_;
    std::string name_;
    std::vector<std::string> slots_;
    std::int64_t steps_ = 0;
};

}  // namespace dlsuite
