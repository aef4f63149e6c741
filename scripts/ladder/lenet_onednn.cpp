// LeNet in oneDNN: its primitives, in the memory layouts that they prefer.
#include "common.hpp"

#include <cmath>
#include <dnnl.hpp>

using namespace dnnl;
using Dims = memory::dims;
using Tag = memory::format_tag;
using Kind = prop_kind;

const engine cpu(engine::kind::cpu, 0);
stream queue(cpu);
const Dims one{1, 1}, two{2, 2}, none{0, 0};

memory::desc desc(const Dims &dims, Tag tag = Tag::any) {
    return {dims, memory::data_type::f32, tag};
}

memory::desc any(const memory &values) { return desc(values.get_desc().get_dims()); }

struct Affine {
    memory weight, bias;
};

// Primitives in order, with their arguments.
struct Net {
    std::vector<std::pair<primitive, std::unordered_map<int, memory>>> calls;

    void run() {
        for (auto &[call, arguments] : calls) call.execute(queue, arguments);
        queue.wait();
    }

    memory in_layout(memory values, const memory::desc &wanted) {
        if (values.get_desc() == wanted) return values;
        memory found(wanted, cpu);
        calls.push_back({reorder(values, found), {{DNNL_ARG_FROM, values}, {DNNL_ARG_TO, found}}});
        return found;
    }
};

// A convolution or a dense layer; its weights change to its layout once.
template <typename Desc> memory affine(Net &net, const Desc &of, const memory &x, Affine &by) {
    Net once;
    by.weight = once.in_layout(by.weight, of.weights_desc());
    once.run();
    memory y(of.dst_desc(), cpu), source = net.in_layout(x, of.src_desc());
    net.calls.push_back({primitive(of), {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, by.weight},
                                         {DNNL_ARG_BIAS, by.bias}, {DNNL_ARG_DST, y}}});
    return y;
}

auto convolution(Kind kind, const memory &x, const Affine &by) {
    Dims in = x.get_desc().get_dims(), weight = by.weight.get_desc().get_dims();
    memory::desc y = desc({in[0], weight[0], in[2] - 4, in[3] - 4});
    return convolution_forward::primitive_desc(cpu, kind, algorithm::convolution_direct, any(x),
                                               any(by.weight), any(by.bias), y, one, none, none);
}

auto max_pool(Kind kind, const memory &x) {
    Dims in = x.get_desc().get_dims();
    memory::desc y = desc({in[0], in[1], in[2] / 2, in[3] / 2});
    return pooling_forward::primitive_desc(cpu, kind, algorithm::pooling_max, x.get_desc(), y, two,
                                           two, none, none, none);
}

auto dense(Kind kind, const memory &x, const Affine &by, const post_ops &then = {}) {
    memory::desc y = desc({x.get_desc().get_dims()[0], by.weight.get_desc().get_dims()[0]});
    primitive_attr attributes;
    attributes.set_post_ops(then);
    return inner_product_forward::primitive_desc(cpu, kind, any(x), any(by.weight), any(by.bias), y,
                                                 attributes);
}

post_ops relu() {
    post_ops then;
    then.append_eltwise(algorithm::eltwise_relu, 0, 0);
    return then;
}

struct Weights {
    Affine conv1, conv2, dense1, dense2;

    Weights(float *flat) {
        auto next = [&](const Dims &dims, Tag tag) {
            memory found(desc(dims, tag), cpu, flat);
            flat += found.get_desc().get_size() / sizeof(float);
            return found;
        };
        conv1 = {next({20, 1, 5, 5}, Tag::oihw), next({20}, Tag::x)};
        conv2 = {next({50, 20, 5, 5}, Tag::oihw), next({50}, Tag::x)};
        dense1 = {next({500, 50, 4, 4}, Tag::oihw), next({500}, Tag::x)};
        dense2 = {next({10, 500}, Tag::oi), next({10}, Tag::x)};
    }
};

struct LeNet {
    const Kind kind;
    Weights &by;
    Net net;
    memory image, conv1, pool1, conv2, pool2, dense1, logits;
    memory choices1, choices2;  // of the pools; only in training

    LeNet(Kind kind, int size, Weights &by) : kind(kind), by(by) {
        image = memory(desc({size, 1, 28, 28}, Tag::nchw), cpu);
        conv1 = affine(net, convolution(kind, image, by.conv1), image, by.conv1);
        pool1 = pool(conv1, choices1);
        conv2 = affine(net, convolution(kind, pool1, by.conv2), pool1, by.conv2);
        pool2 = pool(conv2, choices2);
        dense1 = affine(net, dense(kind, pool2, by.dense1, relu()), pool2, by.dense1);
        logits = affine(net, dense(kind, dense1, by.dense2), dense1, by.dense2);
        logits = net.in_layout(logits, desc({size, 10}, Tag::nc));
    }

    memory pool(const memory &x, memory &choices) {
        auto of = max_pool(kind, x);
        memory y(of.dst_desc(), cpu);
        choices = memory(of.workspace_desc(), cpu);
        net.calls.push_back({primitive(of), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y},
                                             {DNNL_ARG_WORKSPACE, choices}}});
        return y;
    }

    float *operator()(const float *images) {
        image.set_data_handle(const_cast<float *>(images));
        net.run();
        return static_cast<float *>(logits.get_data_handle());
    }
};

// Training

// The gradient by the layer's input.
template <typename Desc> memory by_input(Net &net, const Desc &of, memory dy, const Affine &by) {
    memory dx(of.diff_src_desc(), cpu), weight = net.in_layout(by.weight, of.weights_desc());
    dy = net.in_layout(dy, of.diff_dst_desc());
    net.calls.push_back({primitive(of), {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, weight},
                                         {DNNL_ARG_DIFF_SRC, dx}}});
    return dx;
}

// The gradients by the layer's weight and bias, and the change of both.
template <typename Desc>
void update(Net &net, const Desc &of, memory x, memory dy, const Affine &by) {
    Affine d{memory(of.diff_weights_desc(), cpu), memory(of.diff_bias_desc(), cpu)};
    x = net.in_layout(x, of.src_desc()), dy = net.in_layout(dy, of.diff_dst_desc());
    net.calls.push_back({primitive(of), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy},
                                         {DNNL_ARG_DIFF_WEIGHTS, d.weight},
                                         {DNNL_ARG_DIFF_BIAS, d.bias}}});
    for (auto [value, gradient] : {std::pair(by.weight, d.weight), std::pair(by.bias, d.bias)}) {
        gradient = net.in_layout(gradient, value.get_desc());
        sum::primitive_desc add(cpu, value.get_desc(), {1, -ladder::learning_rate},
                                {value.get_desc(), value.get_desc()});
        net.calls.push_back({sum(add), {{DNNL_ARG_MULTIPLE_SRC, value}, {DNNL_ARG_DST, value},
                                        {DNNL_ARG_MULTIPLE_SRC + 1, gradient}}});
    }
}

memory dense_backward(Net &net, const memory &x, const memory &dy, const Affine &by) {
    auto hint = dense(Kind::forward_training, x, by);
    inner_product_backward_data::primitive_desc data(cpu, any(x), any(by.weight), any(dy), hint);
    inner_product_backward_weights::primitive_desc weights(cpu, any(x), any(by.weight),
                                                           any(by.bias), any(dy), hint);
    memory dx = by_input(net, data, dy, by);
    update(net, weights, x, dy, by);
    return dx;
}

memory convolution_backward(Net &net, const memory &x, const memory &dy, const Affine &by) {
    auto hint = convolution(Kind::forward_training, x, by);
    convolution_backward_data::primitive_desc data(cpu, algorithm::convolution_direct, any(x),
                                                   any(by.weight), any(dy), one, none, none, hint);
    convolution_backward_weights::primitive_desc weights(cpu, algorithm::convolution_direct,
                                                         any(x), any(by.weight), any(by.bias),
                                                         any(dy), one, none, none, hint);
    memory dx = by_input(net, data, dy, by);
    update(net, weights, x, dy, by);
    return dx;
}

memory pool_backward(Net &net, const memory &x, memory dy, const memory &choices) {
    auto hint = max_pool(Kind::forward_training, x);
    dy = net.in_layout(dy, hint.dst_desc());
    pooling_backward::primitive_desc of(cpu, algorithm::pooling_max, x.get_desc(), dy.get_desc(),
                                        two, two, none, none, none, hint);
    memory dx(of.diff_src_desc(), cpu);
    net.calls.push_back({primitive(of), {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WORKSPACE, choices},
                                         {DNNL_ARG_DIFF_SRC, dx}}});
    return dx;
}

memory relu_backward(Net &net, const memory &y, memory dy) {
    auto kind = algorithm::eltwise_relu_use_dst_for_bwd;
    memory::desc of = y.get_desc();
    dy = net.in_layout(dy, of);
    eltwise_forward::primitive_desc hint(cpu, Kind::forward_training, kind, of, of, 0.f);
    eltwise_backward::primitive_desc back(cpu, kind, of, of, of, 0.f, hint);
    net.calls.push_back({primitive(back), {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy},
                                           {DNNL_ARG_DIFF_SRC, dy}}});
    return dy;
}

// The mean cross-entropy; its gradients take the place of the logits.
float cross_entropy(float *logits, const int32_t *labels) {
    float loss = 0;
    for (int i = 0; i < ladder::batch; ++i, logits += 10) {
        float most = *std::max_element(logits, logits + 10), total = 0;
        for (int k = 0; k < 10; ++k) total += std::exp(logits[k] - most);
        loss += (std::log(total) + most - logits[labels[i]]) / ladder::batch;
        for (int k = 0; k < 10; ++k)
            logits[k] = (std::exp(logits[k] - most) / total - (k == labels[i])) / ladder::batch;
    }
    return loss;
}

struct Training {
    LeNet model;
    Net backward;

    Training(Weights &by) : model(Kind::forward_training, ladder::batch, by) {
        memory d = dense_backward(backward, model.dense1, model.logits, by.dense2);
        d = relu_backward(backward, model.dense1, d);
        d = dense_backward(backward, model.pool2, d, by.dense1);
        d = pool_backward(backward, model.conv2, d, model.choices2);
        d = convolution_backward(backward, model.pool1, d, by.conv2);
        d = pool_backward(backward, model.conv1, d, model.choices1);
        convolution_backward(backward, model.image, d, by.conv1);
    }

    float operator()(const float *images, const int32_t *labels) {
        float loss = cross_entropy(model(images), labels);
        backward.run();
        return loss;
    }
};

int main(int count, char **arguments) {
    ladder::Options given(count, arguments);
    Weights weights(given.weights.data());
    LeNet model(Kind::forward_inference, 1, weights);
    Training training(weights);
    ladder::run(given, model, training);
}
