// The layers of images, except convolutions.

#include <algorithm>

#include "fusion.h"
#include "lowering.h"
#include "window.h"

namespace dlsuite {

namespace {

constexpr auto INFERENCE = dnnl::prop_kind::forward_inference;

// Whether the last product of a series can add the residual: at most its batch norm follows.
bool ends_with_product(const Json& layers) {
    if (layers.empty()) return false;
    const std::string last = layers.back().at("kind");
    if (last != "batch_norm") return last == "conv2d" || last == "dense";
    return layers.size() > 1 && layers[layers.size() - 2].at("kind") == "conv2d";
}

}  // namespace

Value Lowering::pool(const Json& layer, const Value& value) {
    const Shape image = value.dims();
    const auto window = window_of(layer, image);
    const auto algorithm = pooling_of(layer);
    const dnnl::pooling_forward::primitive_desc desc(
        graph_.engine(), INFERENCE, algorithm, value.memory.get_desc(),
        any({image[0], image[1], window.output[0], window.output[1]}), window.stride, window.kernel,
        window.dilation, window.before, window.after);
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(dnnl::pooling_forward(desc),
               {{DNNL_ARG_SRC, value.memory}, {DNNL_ARG_DST, result}});
    return {result};
}

Value Lowering::global_pool(const Value& value) {
    return pool(window_of_all(value.dims()), value);
}

Value Lowering::batch_norm(const Json& layer, const Value& value) {
    const auto& desc_of_value = value.memory.get_desc();
    const auto flags = dnnl::normalization_flags::use_global_stats |
                       dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    const dnnl::batch_normalization_forward::primitive_desc desc(
        graph_.engine(), INFERENCE, desc_of_value, desc_of_value, layer.at("epsilon").get<float>(),
        flags);
    const Shape channels{value.dims()[1]};
    const auto& means = statistics_.at(name(layer) + ".mean");
    const auto& variances = statistics_.at(name(layer) + ".variance");
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(
        dnnl::batch_normalization_forward(desc),
        {{DNNL_ARG_SRC, value.memory},
         {DNNL_ARG_DST, result},
         {DNNL_ARG_SCALE, graph_.constant(channels, weight(layer, "weight"))},
         {DNNL_ARG_SHIFT, graph_.constant(channels, weight(layer, "bias"))},
         {DNNL_ARG_MEAN, graph_.constant(channels, means)},
         {DNNL_ARG_VARIANCE, graph_.constant(channels, variances)}});
    return {result};
}

Value Lowering::local_response_norm(const Json& layer, const Value& value) {
    const auto desc_of_value = value.memory.get_desc();
    const auto numbers = response_of(layer);
    const dnnl::lrn_forward::primitive_desc desc(
        graph_.engine(), INFERENCE, dnnl::algorithm::lrn_across_channels, desc_of_value,
        desc_of_value, numbers.size, numbers.alpha, numbers.beta, numbers.k);
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(dnnl::lrn_forward(desc), {{DNNL_ARG_SRC, value.memory}, {DNNL_ARG_DST, result}});
    return {result};
}

Value Lowering::activation(const std::string& kind, const Value& value) {
    const auto desc_of_value = value.memory.get_desc();
    const dnnl::eltwise_forward::primitive_desc desc(graph_.engine(), INFERENCE,
                                                     algorithm_of(kind), desc_of_value,
                                                     desc_of_value, 0.0f, 0.0f);
    const auto result = value.read_again ? graph_.empty(desc_of_value) : value.memory;
    graph_.add(dnnl::eltwise_forward(desc), {{DNNL_ARG_SRC, value.memory}, {DNNL_ARG_DST, result}});
    return {result};
}

Value Lowering::add(const Json& layer, const Value& value, const std::string& activation) {
    const Json& branches = layer.at("branches");
    std::size_t last = branches.size();  // the branch that adds the others in its last product
    for (std::size_t i = 0; i < branches.size(); ++i) {
        if (ends_with_product(branches[i])) last = i;
    }
    Value shared = value;
    shared.read_again = true;
    std::vector<Value> others;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        if (i == last) continue;
        // An empty branch is the input itself, which is read for the last time by the sum.
        others.push_back(branches[i].empty() ? value : series(branches[i], shared));
    }
    if (last == branches.size()) return with_tail(sum(others), {std::nullopt, activation});
    const Value residual = others.size() == 1 ? others[0] : sum(others);
    return series(branches[last], shared, {residual, activation});
}

Value Lowering::concat(const Json& layer, const Value& value) {
    Value shared = value;
    shared.read_again = true;
    Arguments arguments;
    std::vector<dnnl::memory::desc> descs;
    for (const auto& branch : layer.at("branches")) {
        const auto part = series(branch, shared).memory;
        arguments[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size())] = part;
        descs.push_back(part.get_desc());
    }
    const dnnl::concat::primitive_desc desc(graph_.engine(), 1, descs);
    const auto result = graph_.empty(desc.dst_desc());
    arguments[DNNL_ARG_DST] = result;
    graph_.add(dnnl::concat(desc), arguments);
    return {result};
}

Value Lowering::sum(const std::vector<Value>& values) {
    Arguments arguments;
    std::vector<dnnl::memory::desc> descs;
    const Shape dims = values[0].dims();
    const bool are_equal = std::all_of(values.begin(), values.end(),
                                       [&](const Value& each) { return each.dims() == dims; });
    for (const auto& each : values) {  // an image may stand for rows beside other rows
        const auto part = are_equal ? each.memory : rows(each).memory;
        arguments[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size())] = part;
        descs.push_back(part.get_desc());
    }
    const std::vector<float> scales(values.size(), 1.0f);
    const dnnl::sum::primitive_desc desc(graph_.engine(), descs[0], scales, descs);
    const auto result = graph_.empty(desc.dst_desc());
    arguments[DNNL_ARG_DST] = result;
    graph_.add(dnnl::sum(desc), arguments);
    return {result};
}

Value Lowering::rows(const Value& value) {
    const Shape dims = value.dims();
    const auto in_order = graph_.in_layout(value.memory, plain(dims));
    if (dims.size() == 2) return {in_order, value.read_again};
    const Shape shape{dims[0], dlsuite::product(dims) / dims[0]};
    return {graph_.view(in_order, plain(shape)), value.read_again};
}

}  // namespace dlsuite
