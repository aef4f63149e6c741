#include "trainer.h"

#include <cstring>

#include "errors.h"

namespace dlsuite {

namespace {

constexpr int CLASS_AXIS = 1;

float* values_of(const dnnl::memory& memory) {
    return static_cast<float*>(memory.get_data_handle());
}

}  // namespace

OneDnnTrainer::OneDnnTrainer(const dnnl::engine& engine, const Trial& trial, const Tensors& weights)
    : forward_(engine, dnnl::stream(engine)),
      backward_(engine, dnnl::stream(engine)),
      optimizer_(trial.optimizer),
      initial_(weights),
      logits_shape_(trial.logits_shape()) {
    dnnl::memory result = forward_.input(trial.batch_shape());
    for (const auto& layer : trial.layers) result = lower(layer, result);
    loss_layer(result);
    dnnl::memory gradient = loss_gradient_;
    for (auto each = backwards_.rbegin(); each != backwards_.rend(); ++each) {
        gradient = (*each)(gradient);
    }
}

dnnl::memory OneDnnTrainer::lower(const Json& layer, const dnnl::memory& source) {
    const std::string kind = layer.at("kind");
    if (kind == "conv2d") return convolution(layer, source);
    if (kind == "dense") return dense(layer, source);
    if (kind == "max_pool2d" || kind == "avg_pool2d") return pool(layer, source);
    if (kind == "global_avg_pool2d") return global_pool(source);
    if (kind == "relu" || kind == "tanh" || kind == "gelu") return activation(layer, source);
    if (kind == "local_response_norm") return local_response_norm(layer, source);
    if (kind == "flatten") return source;  // an inner product takes images too
    throw NotImplementedError("the oneDNN worker cannot train the layer " + kind);
}

void OneDnnTrainer::loss_layer(const dnnl::memory& source) {
    if (source.get_desc().get_dims() != logits_shape_) {
        throw NotImplementedError("the oneDNN worker trains classifiers that end with rows");
    }
    const auto desc = plain(logits_shape_);
    logits_ = forward_.in_layout(source, desc);
    log_probabilities_ = forward_.empty(desc);
    const dnnl::softmax_forward::primitive_desc forward(
        forward_.engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::softmax_log, desc,
        desc, CLASS_AXIS);
    forward_.add(dnnl::softmax_forward(forward),
                 {{DNNL_ARG_SRC, logits_}, {DNNL_ARG_DST, log_probabilities_}});
    const dnnl::softmax_backward::primitive_desc backward(
        forward_.engine(), dnnl::algorithm::softmax_log, desc, desc, desc, CLASS_AXIS, forward);
    loss_gradient_ = backward_.empty(desc);
    backwards_.push_back([this, backward, desc](const dnnl::memory& difference) {
        const auto result = backward_.empty(desc);
        backward_.add(dnnl::softmax_backward(backward), {{DNNL_ARG_DST, log_probabilities_},
                                                         {DNNL_ARG_DIFF_DST, difference},
                                                         {DNNL_ARG_DIFF_SRC, result}});
        return result;
    });
}

void OneDnnTrainer::compute(const float* inputs, const std::int32_t* labels) {
    forward_.set_input(inputs);
    backward_.set_input(inputs);
    forward_.run();
    const auto batch = logits_shape_[0], classes = logits_shape_[1];
    float* gradient = values_of(loss_gradient_);
    const float* log_probabilities = values_of(log_probabilities_);
    std::memset(gradient, 0, static_cast<std::size_t>(batch * classes) * sizeof *gradient);
    double sum = 0;
    for (std::int64_t i = 0; i < batch; ++i) {
        const auto place = i * classes + labels[i];
        gradient[place] = -1.0f / static_cast<float>(batch);
        sum -= log_probabilities[place];
    }
    loss_ = static_cast<float>(sum / static_cast<double>(batch));
    backward_.run();
}

void OneDnnTrainer::train_step(const float* inputs, const std::int32_t* labels) {
    compute(inputs, labels);
    optimizer_.step(parameters_);
}

void OneDnnTrainer::predict(const float* inputs, float* logits) {
    forward_.set_input(inputs);
    forward_.run();
    const auto size = static_cast<std::size_t>(product(logits_shape_));
    std::memcpy(logits, values_of(logits_), size * sizeof *logits);
}

Tensors OneDnnTrainer::gradients(const float* inputs, const std::int32_t* labels, float* logits) {
    predict(inputs, logits);
    compute(inputs, labels);
    return all([](const Parameter& each) { return each.gradient; });
}

Tensors OneDnnTrainer::weights() {
    return all([](const Parameter& each) { return each.weight; });
}

std::map<std::string, Tensors> OneDnnTrainer::optimizer_state() {
    std::map<std::string, Tensors> state;
    for (const auto& slot : optimizer_.slots()) {
        state[slot] = all([&](const Parameter& each) { return each.slots.at(slot); });
    }
    return state;
}

Tensors OneDnnTrainer::all(const std::function<dnnl::memory(const Parameter&)>& values) const {
    Tensors result;
    for (const auto& each : parameters_) {
        const auto in_order = forward_.empty(plain(each.dims));
        forward_.reorder(values(each), in_order);
        const float* first = values_of(in_order);
        result[each.name].assign(first, first + product(each.dims));
    }
    return result;
}

std::size_t OneDnnTrainer::add_parameter(const std::string& name, const Shape& dims,
                                         const dnnl::memory::desc& desc) {
    Parameter parameter{name, dims, forward_.empty(desc), forward_.empty(desc), {}};
    std::memset(parameter.weight.get_data_handle(), 0, desc.get_size());
    std::memset(parameter.gradient.get_data_handle(), 0, desc.get_size());
    forward_.reorder(forward_.constant(dims, initial_.at(name)), parameter.weight);
    optimizer_.prepare(forward_, parameter);
    parameters_.push_back(parameter);
    return parameters_.size() - 1;
}

}  // namespace dlsuite
