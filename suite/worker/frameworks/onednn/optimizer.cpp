#include "optimizer.h"

#include <cmath>
#include <cstring>

#include "errors.h"

namespace dlsuite {

namespace {

float* values_of(const dnnl::memory& memory) {
    return static_cast<float*>(memory.get_data_handle());
}

// The number of values of a parameter, with padding.
std::int64_t size_of(const Parameter& parameter) {
    return static_cast<std::int64_t>(parameter.weight.get_desc().get_size() / sizeof(float));
}

std::vector<std::string> slots_of(const std::string& name) {
    if (name == "sgd") return {};
    if (name == "momentum") return {"velocity"};
    if (name == "rmsprop") return {"second_moment"};
    if (name == "adam" || name == "adamw") return {"first_moment", "second_moment"};
    throw NotImplementedError("the worker has no optimizer " + name);
}

}  // namespace

Optimizer::Optimizer(const Json& values)
    : values_(values), name_(values.at("name")), slots_(slots_of(name_)) {}

void Optimizer::prepare(const Graph& graph, Parameter& parameter) const {
    for (const auto& slot : slots_) {
        const auto desc = parameter.weight.get_desc();
        auto& memory = parameter.slots[slot] = graph.empty(desc);
        std::memset(memory.get_data_handle(), 0, desc.get_size());
    }
}

void Optimizer::step(std::vector<Parameter>& parameters) {
    ++steps_;
    for (auto& parameter : parameters) update(parameter);
}

void Optimizer::update(Parameter& parameter) const {
    if (name_ == "sgd") return sgd(parameter);
    if (name_ == "momentum") return momentum(parameter);
    if (name_ == "rmsprop") return rmsprop(parameter);
    adam(parameter);
}

void Optimizer::sgd(Parameter& parameter) const {
    float* w = values_of(parameter.weight);
    const float* g = values_of(parameter.gradient);
    const float rate = constant("learning_rate");
    const auto size = size_of(parameter);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < size; ++i) w[i] -= rate * g[i];
}

void Optimizer::momentum(Parameter& parameter) const {
    float* w = values_of(parameter.weight);
    float* v = values_of(parameter.slots.at("velocity"));
    const float* g = values_of(parameter.gradient);
    const float rate = constant("learning_rate"), kept = constant("momentum");
    const auto size = size_of(parameter);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < size; ++i) {
        v[i] = kept * v[i] + g[i];
        w[i] -= rate * v[i];
    }
}

void Optimizer::rmsprop(Parameter& parameter) const {
    float* w = values_of(parameter.weight);
    float* v = values_of(parameter.slots.at("second_moment"));
    const float* g = values_of(parameter.gradient);
    const float rate = constant("learning_rate"), decay = constant("decay");
    const float epsilon = constant("epsilon");
    const auto size = size_of(parameter);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < size; ++i) {
        v[i] = decay * v[i] + (1 - decay) * g[i] * g[i];
        w[i] -= rate * g[i] / std::sqrt(v[i] + epsilon);
    }
}

void Optimizer::adam(Parameter& parameter) const {
    float* w = values_of(parameter.weight);
    float* m = values_of(parameter.slots.at("first_moment"));
    float* v = values_of(parameter.slots.at("second_moment"));
    const float* g = values_of(parameter.gradient);
    const float rate = constant("learning_rate"), epsilon = constant("epsilon");
    const float beta1 = constant("beta1"), beta2 = constant("beta2");
    const auto scale1 = static_cast<float>(1 - std::pow(double{beta1}, steps_));
    const auto scale2 = static_cast<float>(1 - std::pow(double{beta2}, steps_));
    const float kept = name_ == "adamw" ? 1 - rate * constant("weight_decay") : 1;
    const auto size = size_of(parameter);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < size; ++i) {
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        w[i] = kept * w[i] - rate * (m[i] / scale1) / (std::sqrt(v[i] / scale2) + epsilon);
    }
}

}  // namespace dlsuite
