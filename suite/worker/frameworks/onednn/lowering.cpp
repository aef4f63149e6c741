#include "lowering.h"

#include "errors.h"

namespace dlsuite {

namespace {

bool is_activation(const Json& layer) {
    const std::string kind = layer.at("kind");
    return kind == "relu" || kind == "tanh" || kind == "gelu";
}

const Json* layer_at(const Json& layers, std::size_t index) {
    return index < layers.size() ? &layers[index] : nullptr;
}

}  // namespace

Value Lowering::series(const Json& layers, Value value, Tail tail) {
    for (std::size_t i = 0; i < layers.size();) {
        const Json& layer = layers[i++];
        const std::string kind = layer.at("kind");
        const bool is_product = kind == "conv2d" || kind == "dense";
        if (!is_product && kind != "add") {
            value = other(layer, value);
            continue;
        }
        const Json* norm = kind == "conv2d" ? layer_at(layers, i) : nullptr;
        if (norm && norm->at("kind") != "batch_norm") norm = nullptr;
        if (norm) ++i;
        Tail fused;
        const Json* next = layer_at(layers, i);
        if (next && is_activation(*next)) {
            fused.activation = next->at("kind");
            ++i;
        } else if (!next && is_product) {
            std::swap(fused, tail);
        }
        if (kind == "conv2d") value = convolution(layer, norm, value, fused);
        if (kind == "dense") value = dense(layer, value, fused);
        if (kind == "add") value = add(layer, value, fused.activation);
    }
    return with_tail(value, tail);
}

Value Lowering::other(const Json& layer, const Value& value) {
    const std::string kind = layer.at("kind");
    if (kind == "max_pool2d" || kind == "avg_pool2d") return pool(layer, value);
    if (kind == "global_avg_pool2d") return global_pool(value);
    if (kind == "batch_norm") return batch_norm(layer, value);
    if (kind == "local_response_norm") return local_response_norm(layer, value);
    if (is_activation(layer)) return activation(kind, value);
    if (kind == "flatten") return value;
    if (kind == "concat") return concat(layer, value);
    if (kind == "layer_norm") return layer_norm(layer, value);
    if (kind == "rows") return image_to_rows(value);
    if (kind == "tokens") return tokens(value);
    if (kind == "class_token") return class_token(layer, value);
    if (kind == "position_embedding") return positions(layer, value);
    if (kind == "first_token") return first_token(value);
    if (kind == "self_attention") return attention(layer, value);
    if (kind == "lstm") return lstm(layer, value);
    throw NotImplementedError("oneDNN has no layer " + kind);
}

Value Lowering::with_tail(const Value& value, const Tail& tail) {
    Value result = value;
    if (tail.residual) result = sum({value, *tail.residual});
    if (!tail.activation.empty()) result = activation(tail.activation, result);
    return result;
}

const std::vector<float>& Lowering::weight(const Json& layer, const std::string& role) const {
    return weights_.at(name(layer) + "." + role);
}

}  // namespace dlsuite
