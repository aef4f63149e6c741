// Convolutions and inner products, with what is fused into them.

#include "fold.h"
#include "fusion.h"
#include "lowering.h"
#include "window.h"

namespace dlsuite {

dnnl::memory Lowering::target(const dnnl::memory::desc& desc, const Tail& tail,
                              const Value& source) {
    if (!tail.residual) return graph_.empty(desc);
    const auto& residual = tail.residual->memory;
    const bool is_source = residual.get_data_handle() == source.memory.get_data_handle();
    if (is_source || tail.residual->read_again) return graph_.copy(residual, desc);
    return graph_.in_layout(residual, desc);
}

Value Lowering::convolution(const Json& layer, const Json* norm, const Value& value,
                            const Tail& tail) {
    const auto [kernel, bias] = folded(layer, norm, weights_, statistics_);
    const Shape image = value.dims();
    const auto window = window_of(layer, image);
    const std::int64_t outputs = layer.at("out_channels");
    const Shape kernel_shape{outputs, image[1], window.kernel[0], window.kernel[1]};
    const Shape result_shape{image[0], outputs, window.output[0], window.output[1]};
    const auto bias_desc = bias.empty() ? dnnl::memory::desc() : plain({outputs});
    const dnnl::convolution_forward::primitive_desc desc(
        graph_.engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        any(image), any(kernel_shape), bias_desc, any(result_shape), window.stride, window.dilation,
        window.before, window.after, fused(tail));
    const auto weights = graph_.empty(desc.weights_desc());
    graph_.reorder(graph_.constant(kernel_shape, kernel), weights);
    const auto source = graph_.in_layout(value.memory, desc.src_desc());
    const auto result = target(desc.dst_desc(), tail, {source});
    Arguments arguments{
        {DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}};
    if (!bias.empty()) arguments[DNNL_ARG_BIAS] = graph_.constant({outputs}, bias);
    graph_.add(dnnl::convolution_forward(desc), arguments);
    return {result};
}

Value Lowering::dense(const Json& layer, const Value& value, const Tail& tail) {
    const bool has_bias = layer.at("bias");
    const std::vector<float>* bias = has_bias ? &weight(layer, "bias") : nullptr;
    const Shape shape{layer.at("out_features"), layer.at("in_features")};
    return product(shape, weight(layer, "weight"), bias, value, tail);
}

Value Lowering::product(const Shape& weight_shape, const std::vector<float>& weight,
                        const std::vector<float>* bias, const Value& value, const Tail& tail) {
    Value source = value;
    Tail own = tail;
    Shape dims = value.dims();
    const bool is_sequence = dims.size() == 3;
    if (is_sequence) {  // the members are rows
        dims = {dims[0] * dims[1], dims[2]};
        source.memory = graph_.view(value.memory, plain(dims));
        if (own.residual) {
            const Shape shape{dims[0], weight_shape[0]};
            own.residual->memory = graph_.view(own.residual->memory, plain(shape));
        }
    } else if (own.residual) {
        own.residual = rows(*own.residual);
    }
    const auto outputs = weight_shape[0];
    Shape kernel_shape = dims;  // of an image (out, C, height, width): it needs no flattening
    kernel_shape[0] = outputs;
    const Shape result_shape{dims[0], outputs};
    const auto result_desc = is_sequence || own.residual ? plain(result_shape) : any(result_shape);
    const dnnl::inner_product_forward::primitive_desc desc(
        graph_.engine(), dnnl::prop_kind::forward_inference, any(dims), any(kernel_shape),
        bias ? plain({outputs}) : dnnl::memory::desc(), result_desc, fused(own));
    const auto weights = graph_.empty(desc.weights_desc());
    graph_.reorder(graph_.constant(kernel_shape, weight), weights);
    source.memory = graph_.in_layout(source.memory, desc.src_desc());
    auto result = target(desc.dst_desc(), own, source);
    Arguments arguments{
        {DNNL_ARG_SRC, source.memory}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}};
    if (bias) arguments[DNNL_ARG_BIAS] = graph_.constant({outputs}, *bias);
    graph_.add(dnnl::inner_product_forward(desc), arguments);
    if (!is_sequence) return {result};
    const Shape sequence = value.dims();
    return {graph_.view(result, plain({sequence[0], sequence[1], outputs}))};
}

}  // namespace dlsuite
