// The algorithms of layers, and what oneDNN computes together with a product.
#pragma once

#include "lowering.h"

namespace dlsuite {

// The algorithm of an activation, by its kind of layer.
dnnl::algorithm algorithm_of(const std::string& activation);

// The algorithm of a pool.
dnnl::algorithm pooling_of(const Json& layer);

// The numbers of a local response norm.
struct Response {
    std::int64_t size;
    float alpha, beta, k;
};
Response response_of(const Json& layer);

// The attributes of a product that also computes `tail`.
dnnl::primitive_attr fused(const Tail& tail);

}  // namespace dlsuite
