// The layers that the worker trains, each with its backward pass.

#include "fusion.h"
#include "trainer.h"
#include "window.h"

namespace dlsuite {

namespace {

constexpr auto TRAINING = dnnl::prop_kind::forward_training;

dnnl::memory::desc bias_desc(const Json& layer, std::int64_t outputs) {
    return layer.at("bias") ? plain({outputs}) : dnnl::memory::desc();
}

}  // namespace

dnnl::memory OneDnnTrainer::convolution(const Json& layer, const dnnl::memory& source) {
    const Shape image = source.get_desc().get_dims();
    const auto window = window_of(layer, image);
    const std::int64_t outputs = layer.at("out_channels");
    const Shape kernel{outputs, image[1], window.kernel[0], window.kernel[1]};
    const Shape dims{image[0], outputs, window.output[0], window.output[1]};
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto bias = bias_desc(layer, outputs);
    const auto& engine = forward_.engine();
    const dnnl::convolution_forward::primitive_desc forward(
        engine, TRAINING, direct, any(image), any(kernel), bias, any(dims), window.stride,
        window.dilation, window.before, window.after);
    const dnnl::convolution_backward_weights::primitive_desc by_weights(
        engine, direct, any(image), any(kernel), bias, any(dims), window.stride, window.dilation,
        window.before, window.after, forward);
    const dnnl::convolution_backward_data::primitive_desc by_data(
        engine, direct, any(image), any(kernel), any(dims), window.stride, window.dilation,
        window.before, window.after, forward);
    return affine<dnnl::convolution_forward, dnnl::convolution_backward_weights,
                   dnnl::convolution_backward_data>(layer, source, kernel, forward, by_weights,
                                                    by_data);
}

dnnl::memory OneDnnTrainer::dense(const Json& layer, const dnnl::memory& source) {
    const Shape dims = source.get_desc().get_dims();
    const std::int64_t outputs = layer.at("out_features");
    Shape kernel = dims;  // of an image (out, C, height, width): it needs no flattening
    kernel[0] = outputs;
    const Shape result{dims[0], outputs};
    const auto bias = bias_desc(layer, outputs);
    const auto& engine = forward_.engine();
    const dnnl::inner_product_forward::primitive_desc forward(engine, TRAINING, any(dims),
                                                              any(kernel), bias, any(result));
    const dnnl::inner_product_backward_weights::primitive_desc by_weights(
        engine, any(dims), any(kernel), bias, any(result), forward);
    const dnnl::inner_product_backward_data::primitive_desc by_data(engine, any(dims), any(kernel),
                                                                    any(result), forward);
    return affine<dnnl::inner_product_forward, dnnl::inner_product_backward_weights,
                  dnnl::inner_product_backward_data>(layer, source, kernel, forward, by_weights,
                                                      by_data);
}

template <typename Forward, typename ByWeights, typename ByData>
dnnl::memory OneDnnTrainer::affine(const Json& layer, const dnnl::memory& source,
                                    const Shape& kernel,
                                    const typename Forward::primitive_desc& forward,
                                    const typename ByWeights::primitive_desc& by_weights,
                                    const typename ByData::primitive_desc& by_data) {
    const std::string name = layer.at("name");
    const bool has_bias = layer.at("bias"), is_first = backwards_.empty();
    const auto weight = add_parameter(name + ".weight", kernel, forward.weights_desc());
    const auto bias =
        has_bias ? add_parameter(name + ".bias", {kernel[0]}, forward.bias_desc()) : weight;
    const auto input = forward_.in_layout(source, forward.src_desc());
    const auto result = forward_.empty(forward.dst_desc());
    Arguments arguments{{DNNL_ARG_SRC, input},
                        {DNNL_ARG_WEIGHTS, parameters_[weight].weight},
                        {DNNL_ARG_DST, result}};
    if (has_bias) arguments[DNNL_ARG_BIAS] = parameters_[bias].weight;
    forward_.add(Forward(forward), arguments);

    backwards_.push_back([=](const dnnl::memory& difference) {
        const auto own = parameters_[weight];
        const auto gradient = own.gradient.get_desc() == by_weights.diff_weights_desc()
                                  ? own.gradient
                                  : backward_.empty(by_weights.diff_weights_desc());
        Arguments of_weights{
            {DNNL_ARG_SRC, backward_.in_layout(source, by_weights.src_desc())},
            {DNNL_ARG_DIFF_DST, backward_.in_layout(difference, by_weights.diff_dst_desc())},
            {DNNL_ARG_DIFF_WEIGHTS, gradient}};
        if (has_bias) of_weights[DNNL_ARG_DIFF_BIAS] = parameters_[bias].gradient;
        backward_.add(ByWeights(by_weights), of_weights);
        if (gradient != own.gradient) backward_.add_reorder(gradient, own.gradient);
        if (is_first) return dnnl::memory();  // nobody needs the gradient of the input
        const auto result_difference = backward_.empty(by_data.diff_src_desc());
        backward_.add(
            ByData(by_data),
            {{DNNL_ARG_DIFF_DST, backward_.in_layout(difference, by_data.diff_dst_desc())},
             {DNNL_ARG_WEIGHTS, backward_.in_layout(own.weight, by_data.weights_desc())},
             {DNNL_ARG_DIFF_SRC, result_difference}});
        return result_difference;
    });
    return result;
}

dnnl::memory OneDnnTrainer::pool(const Json& layer, const dnnl::memory& source) {
    const auto source_desc = source.get_desc();
    const Shape image = source_desc.get_dims();
    const auto window = window_of(layer, image);
    const bool is_max = layer.at("kind") == "max_pool2d";
    const auto algorithm = pooling_of(layer);
    const auto& engine = forward_.engine();
    const dnnl::pooling_forward::primitive_desc forward(
        engine, TRAINING, algorithm, source_desc,
        any({image[0], image[1], window.output[0], window.output[1]}), window.stride, window.kernel,
        window.dilation, window.before, window.after);
    const auto result = forward_.empty(forward.dst_desc());
    const auto workspace = forward_.empty(forward.workspace_desc());
    Arguments arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, result}};
    if (is_max) arguments[DNNL_ARG_WORKSPACE] = workspace;
    forward_.add(dnnl::pooling_forward(forward), arguments);
    const dnnl::pooling_backward::primitive_desc backward(
        engine, algorithm, source_desc, forward.dst_desc(), window.stride, window.kernel,
        window.dilation, window.before, window.after, forward);
    backwards_.push_back([=](const dnnl::memory& difference) {
        const auto result_difference = backward_.empty(backward.diff_src_desc());
        Arguments of_source{
            {DNNL_ARG_DIFF_DST, backward_.in_layout(difference, backward.diff_dst_desc())},
            {DNNL_ARG_DIFF_SRC, result_difference}};
        if (is_max) of_source[DNNL_ARG_WORKSPACE] = workspace;
        backward_.add(dnnl::pooling_backward(backward), of_source);
        return result_difference;
    });
    return result;
}

dnnl::memory OneDnnTrainer::global_pool(const dnnl::memory& source) {
    return pool(window_of_all(source.get_desc().get_dims()), source);
}

dnnl::memory OneDnnTrainer::activation(const Json& layer, const dnnl::memory& source) {
    const auto desc = source.get_desc();
    const auto algorithm = algorithm_of(layer.at("kind"));
    const auto& engine = forward_.engine();
    const dnnl::eltwise_forward::primitive_desc forward(engine, TRAINING, algorithm, desc, desc);
    const auto result = forward_.empty(desc);
    forward_.add(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, result}});
    const dnnl::eltwise_backward::primitive_desc backward(engine, algorithm, desc, desc, desc,
                                                          forward);
    backwards_.push_back([=](const dnnl::memory& difference) {
        const auto result_difference = backward_.empty(desc);
        backward_.add(dnnl::eltwise_backward(backward),
                      {{DNNL_ARG_SRC, source},
                       {DNNL_ARG_DIFF_DST, backward_.in_layout(difference, desc)},
                       {DNNL_ARG_DIFF_SRC, result_difference}});
        return result_difference;
    });
    return result;
}

dnnl::memory OneDnnTrainer::local_response_norm(const Json& layer, const dnnl::memory& source) {
    const auto desc = source.get_desc();
    const auto algorithm = dnnl::algorithm::lrn_across_channels;
    const auto numbers = response_of(layer);
    const auto& engine = forward_.engine();
    const dnnl::lrn_forward::primitive_desc forward(engine, TRAINING, algorithm, desc, desc,
                                                    numbers.size, numbers.alpha, numbers.beta,
                                                    numbers.k);
    const auto result = forward_.empty(forward.dst_desc());
    const auto workspace_desc = forward.workspace_desc();
    const bool has_workspace = workspace_desc.get_size() > 0;  // it depends on the layout
    const auto workspace = has_workspace ? forward_.empty(workspace_desc) : dnnl::memory();
    Arguments arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, result}};
    if (has_workspace) arguments[DNNL_ARG_WORKSPACE] = workspace;
    forward_.add(dnnl::lrn_forward(forward), arguments);
    const dnnl::lrn_backward::primitive_desc backward(engine, algorithm, desc, desc, desc,
                                                      numbers.size, numbers.alpha, numbers.beta,
                                                      numbers.k, forward);
    backwards_.push_back([=](const dnnl::memory& difference) {
        const auto result_difference = backward_.empty(desc);
        Arguments of_source{{DNNL_ARG_SRC, source},
                            {DNNL_ARG_DIFF_DST, backward_.in_layout(difference, desc)},
                            {DNNL_ARG_DIFF_SRC, result_difference}};
        if (has_workspace) of_source[DNNL_ARG_WORKSPACE] = workspace;
        backward_.add(dnnl::lrn_backward(backward), of_source);
        return result_difference;
    });
    return result;
}

}  // namespace dlsuite
