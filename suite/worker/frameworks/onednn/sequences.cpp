// The layers of sequences (N, length, features), which are always in C order.

#include <cmath>
#include <limits>

#include "lowering.h"

namespace dlsuite {

namespace {

constexpr auto INFERENCE = dnnl::prop_kind::forward_inference;
using Desc = dnnl::memory::desc;

// A part of the attention for each head, inside a sequence with rows of `width` values.
Desc heads_of(const Shape& shape, std::int64_t width, bool transposed = false) {
    const auto heads = shape[1], length = shape[2], size = shape[3];
    if (transposed) return {{shape[0], heads, size, length}, F32, {length * width, size, 1, width}};
    return {shape, F32, {length * width, size, width, 1}};
}

// 0 where a member attends to another one, and -inf where `causal` forbids it.
std::vector<float> mask(std::int64_t length, bool causal) {
    std::vector<float> values(static_cast<std::size_t>(length * length));
    for (std::int64_t row = 0; causal && row < length; ++row) {
        for (std::int64_t column = row + 1; column < length; ++column) {
            values[static_cast<std::size_t>(row * length + column)] =
                -std::numeric_limits<float>::infinity();
        }
    }
    return values;
}

}  // namespace

Value Lowering::layer_norm(const Json& layer, const Value& value) {
    const auto flags =
        dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    const auto desc_of_value = value.memory.get_desc();
    const dnnl::layer_normalization_forward::primitive_desc desc(
        graph_.engine(), INFERENCE, desc_of_value, desc_of_value, layer.at("epsilon").get<float>(),
        flags);
    const Shape features{layer.at("features")};
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(dnnl::layer_normalization_forward(desc),
               {{DNNL_ARG_SRC, value.memory},
                {DNNL_ARG_DST, result},
                {DNNL_ARG_SCALE, graph_.constant(features, weight(layer, "weight"))},
                {DNNL_ARG_SHIFT, graph_.constant(features, weight(layer, "bias"))}});
    return {result};
}

Value Lowering::image_to_rows(const Value& value) {
    const Shape dims = value.dims();
    const auto in_order = graph_.in_layout(value.memory, plain(dims));
    return {graph_.view(in_order, plain({dims[0], dims[2], dims[3]})), value.read_again};
}

Value Lowering::tokens(const Value& value) {
    const Shape dims = value.dims();
    const auto last = graph_.in_layout(value.memory, Desc(dims, F32, Tag::nhwc));
    return {graph_.view(last, plain({dims[0], dims[2] * dims[3], dims[1]})), value.read_again};
}

Value Lowering::class_token(const Json& layer, const Value& value) {
    const Shape dims = value.dims();
    std::vector<float> repeated;  // for each sample
    for (std::int64_t i = 0; i < dims[0]; ++i) {
        const auto& token = weight(layer, "weight");
        repeated.insert(repeated.end(), token.begin(), token.end());
    }
    const auto token = graph_.constant({dims[0], 1, dims[2]}, repeated);
    const dnnl::concat::primitive_desc desc(graph_.engine(), plain({dims[0], dims[1] + 1, dims[2]}),
                                            1, {token.get_desc(), value.memory.get_desc()});
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(dnnl::concat(desc), {{DNNL_ARG_MULTIPLE_SRC, token},
                                    {DNNL_ARG_MULTIPLE_SRC + 1, value.memory},
                                    {DNNL_ARG_DST, result}});
    return {result};
}

Value Lowering::positions(const Json& layer, const Value& value) {
    const Shape dims = value.dims();
    const auto vectors = graph_.constant({1, dims[1], dims[2]}, weight(layer, "weight"));
    const dnnl::binary::primitive_desc desc(graph_.engine(), dnnl::algorithm::binary_add,
                                            value.memory.get_desc(), vectors.get_desc(),
                                            plain(dims));
    const auto result = graph_.empty(desc.dst_desc());
    graph_.add(dnnl::binary(desc), {{DNNL_ARG_SRC_0, value.memory},
                                    {DNNL_ARG_SRC_1, vectors},
                                    {DNNL_ARG_DST, result}});
    return {result};
}

Value Lowering::first_token(const Value& value) {
    const Shape dims = value.dims();
    const Desc first({dims[0], dims[2]}, F32, {dims[1] * dims[2], 1});
    return {graph_.copy(graph_.view(value.memory, first), plain({dims[0], dims[2]}))};
}

Value Lowering::attention(const Json& layer, const Value& value) {
    const Shape dims = value.dims();
    const std::int64_t features = layer.at("features"), heads = layer.at("heads");
    const auto width = 3 * features;
    const Value projected = product({width, features}, weight(layer, "in_weight"),
                                    &weight(layer, "in_bias"), value, {});
    const Shape per_head{dims[0], heads, dims[1], features / heads};
    // Queries, keys and values lie beside each other in each row: their views begin at an offset.
    const auto part = [&](std::int64_t number, const Desc& desc) {
        auto* start = static_cast<float*>(projected.memory.get_data_handle()) + number * features;
        return dnnl::memory(desc, graph_.engine(), start);
    };
    const auto scores = attention_scores(part(0, heads_of(per_head, width)),
                                         part(1, heads_of(per_head, width, true)),
                                         layer.at("causal"));
    const auto values = part(2, heads_of(per_head, width));
    const auto mixed = graph_.empty(plain(dims));
    const auto by_head = graph_.view(mixed, heads_of(per_head, features));
    const dnnl::matmul::primitive_desc desc(graph_.engine(), scores.get_desc(), values.get_desc(),
                                            by_head.get_desc());
    graph_.add(dnnl::matmul(desc),
               {{DNNL_ARG_SRC, scores}, {DNNL_ARG_WEIGHTS, values}, {DNNL_ARG_DST, by_head}});
    return product({features, features}, weight(layer, "out_weight"), &weight(layer, "out_bias"),
                   {mixed}, {});
}

dnnl::memory Lowering::attention_scores(const dnnl::memory& queries, const dnnl::memory& keys,
                                        bool causal) {
    const Shape dims = queries.get_desc().get_dims();
    const auto length = dims[2];
    const Desc pairs = plain({dims[0], dims[1], length, length});
    const auto forbidden = graph_.constant({1, 1, length, length}, mask(length, causal));
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dims[3])));
    dnnl::post_ops operations;
    operations.append_eltwise(dnnl::algorithm::eltwise_linear, scale, 0.0f);
    if (causal) operations.append_binary(dnnl::algorithm::binary_add, forbidden.get_desc());
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    const dnnl::matmul::primitive_desc desc(graph_.engine(), queries.get_desc(), keys.get_desc(),
                                            pairs, attributes);
    const auto scores = graph_.empty(pairs);
    Arguments arguments{
        {DNNL_ARG_SRC, queries}, {DNNL_ARG_WEIGHTS, keys}, {DNNL_ARG_DST, scores}};
    if (causal) arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1] = forbidden;
    graph_.add(dnnl::matmul(desc), arguments);
    const dnnl::softmax_forward::primitive_desc softmax(
        graph_.engine(), INFERENCE, dnnl::algorithm::softmax_accurate, pairs, pairs, 3);
    graph_.add(dnnl::softmax_forward(softmax), {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}});
    return scores;
}

Value Lowering::lstm(const Json& layer, const Value& value) {
    const Shape dims = value.dims();
    const std::int64_t inputs = layer.at("in_features"), hidden = layer.at("hidden");
    const Shape steps{dims[1], dims[0], dims[2]}, outputs{dims[1], dims[0], hidden};
    const Shape state{1, 1, dims[0], hidden}, input_shape{1, 1, inputs, 4, hidden};
    const Shape hidden_shape{1, 1, hidden, 4, hidden}, bias_shape{1, 1, 4, hidden};
    const Desc by_sample(steps, F32, {dims[2], dims[1] * dims[2], 1});  // (length, N, features)
    const dnnl::lstm_forward::primitive_desc desc(
        graph_.engine(), INFERENCE, dnnl::rnn_direction::unidirectional_left2right, any(steps),
        Desc(), Desc(), any(input_shape), any(hidden_shape), plain(bias_shape), any(outputs),
        plain(state), plain(state));
    // The canonical weights are (gate, out, in): oneDNN's layout ldgoi, in its order of gates.
    const auto weights = [&](const Shape& shape, const std::string& role, const Desc& wanted) {
        auto canonical = graph_.constant({dlsuite::product(shape)}, weight(layer, role));
        // oneDNN packs weights from the layout ldigo alone.
        const auto usual = graph_.empty(plain(shape)), result = graph_.empty(wanted);
        graph_.reorder(graph_.view(canonical, Desc(shape, F32, Tag::ldgoi)), usual);
        graph_.reorder(usual, result);
        return result;
    };
    const auto source =
        graph_.in_layout(graph_.view(value.memory, by_sample), desc.src_layer_desc());
    const auto last = graph_.empty(desc.dst_iter_desc());
    graph_.add(
        dnnl::lstm_forward(desc),
        {{DNNL_ARG_SRC_LAYER, source},
         {DNNL_ARG_WEIGHTS_LAYER, weights(input_shape, "input_weight", desc.weights_layer_desc())},
         {DNNL_ARG_WEIGHTS_ITER, weights(hidden_shape, "hidden_weight", desc.weights_iter_desc())},
         {DNNL_ARG_BIAS, graph_.constant(bias_shape, weight(layer, "bias"))},
         {DNNL_ARG_DST_LAYER, graph_.empty(desc.dst_layer_desc())},
         {DNNL_ARG_DST_ITER, last},
         {DNNL_ARG_DST_ITER_C, graph_.empty(desc.dst_iter_c_desc())}});
    return {graph_.view(last, plain({dims[0], hidden}))};
}

}  // namespace dlsuite
