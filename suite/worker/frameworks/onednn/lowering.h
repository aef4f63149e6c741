// The lowering of a model in its inference form to oneDNN's primitives.
#pragma once

#include <optional>
#include <string>

#include "graph.h"

namespace dlsuite {

// The result of a layer: images (N, C, height, width) in any layout, which stand for rows too after
// `flatten`; sequences (N, length, features) and rows (N, features) in C order.
struct Value {
    dnnl::memory memory;
    bool read_again = false;  // a later layer reads it, so no primitive may overwrite it

    Shape dims() const { return memory.get_desc().get_dims(); }
};

// What follows the last product of a series, and is fused into it where that is possible.
struct Tail {
    std::optional<Value> residual;  // is added
    std::string activation;         // empty, or the kind of a layer

    bool empty() const { return !residual && activation.empty(); }
};

class Lowering {
  public:
    Lowering(Graph& graph, const Tensors& weights, const Tensors& statistics)
        : graph_(graph), weights_(weights), statistics_(statistics) {}

    // Lower a series of layers, and then `tail`. Throw NotImplementedError for an unknown kind.
    Value series(const Json& layers, Value value, Tail tail = {});

    // Rows (N, features) in C order, from rows or images.
    Value rows(const Value& value);

  private:
    // A product with what is fused into it: a batch norm, and an activation or the tail.
    Value convolution(const Json& layer, const Json* norm, const Value& value, const Tail& tail);
    Value dense(const Json& layer, const Value& value, const Tail& tail);
    Value product(const Shape& weight_shape, const std::vector<float>& weight,
                  const std::vector<float>* bias, const Value& value, const Tail& tail);

    // Layers of images.
    Value other(const Json& layer, const Value& value);
    Value pool(const Json& layer, const Value& value);
    Value global_pool(const Value& value);
    Value batch_norm(const Json& layer, const Value& value);
    Value local_response_norm(const Json& layer, const Value& value);
    Value activation(const std::string& kind, const Value& value);
    Value add(const Json& layer, const Value& value, const std::string& activation);
    Value concat(const Json& layer, const Value& value);
    Value sum(const std::vector<Value>& values);
    Value with_tail(const Value& value, const Tail& tail);

    // Layers of sequences.
    Value layer_norm(const Json& layer, const Value& value);
    Value image_to_rows(const Value& value);
    Value tokens(const Value& value);
    Value class_token(const Json& layer, const Value& value);
    Value positions(const Json& layer, const Value& value);
    Value first_token(const Value& value);
    Value attention(const Json& layer, const Value& value);
    dnnl::memory attention_scores(const dnnl::memory& queries, const dnnl::memory& keys,
                                  bool causal);  // after the softmax
    Value lstm(const Json& layer, const Value& value);

    // The memory to which a product writes: where there is a residual, that holds it.
    dnnl::memory target(const dnnl::memory::desc& desc, const Tail& tail, const Value& source);

    const std::vector<float>& weight(const Json& layer, const std::string& role) const;
    std::string name(const Json& layer) const { return layer.at("name"); }

    Graph& graph_;
    const Tensors& weights_;
    const Tensors& statistics_;
};

}  // namespace dlsuite
