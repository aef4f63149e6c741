#include "fusion.h"

#include "errors.h"

namespace dlsuite {

dnnl::algorithm algorithm_of(const std::string& activation) {
    if (activation == "relu") return dnnl::algorithm::eltwise_relu;
    if (activation == "tanh") return dnnl::algorithm::eltwise_tanh;
    if (activation == "gelu") return dnnl::algorithm::eltwise_gelu_erf;
    throw NotImplementedError("oneDNN has no activation " + activation);
}

dnnl::algorithm pooling_of(const Json& layer) {
    if (layer.at("kind") == "max_pool2d") return dnnl::algorithm::pooling_max;
    return layer.at("count_padding") ? dnnl::algorithm::pooling_avg_include_padding
                                     : dnnl::algorithm::pooling_avg_exclude_padding;
}

Response response_of(const Json& layer) {
    return {layer.at("size"), layer.at("alpha"), layer.at("beta"), layer.at("k")};
}

dnnl::primitive_attr fused(const Tail& tail) {
    dnnl::post_ops operations;
    if (tail.residual) operations.append_sum(1.0f);
    if (!tail.activation.empty()) {
        operations.append_eltwise(algorithm_of(tail.activation), 0.0f, 0.0f);
    }
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(operations);
    return attributes;
}

}  // namespace dlsuite
