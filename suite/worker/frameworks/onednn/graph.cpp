#include "graph.h"

#include <algorithm>
#include <cstring>

namespace dlsuite {

dnnl::memory::desc plain(const Shape& dims) {
    dnnl::memory::dims strides(dims.size());
    dnnl::memory::dim stride = 1;
    for (auto axis = dims.size(); axis-- > 0; stride *= dims[axis]) strides[axis] = stride;
    return {dims, F32, strides};
}

dnnl::memory::desc any(const Shape& dims) { return {dims, F32, Tag::any}; }

dnnl::memory Graph::constant(const Shape& dims, const std::vector<float>& values) const {
    dnnl::memory memory = empty(plain(dims));
    std::memcpy(memory.get_data_handle(), values.data(), values.size() * sizeof(float));
    return memory;
}

void Graph::add(const dnnl::primitive& primitive, const Arguments& arguments) {
    series_.emplace_back(primitive, arguments);
}

dnnl::memory Graph::in_layout(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
    return memory.get_desc() == desc ? memory : copy(memory, desc);
}

dnnl::memory Graph::copy(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
    const auto result = empty(desc);
    add_reorder(memory, result);
    return result;
}

void Graph::add_reorder(const dnnl::memory& from, const dnnl::memory& to) {
    add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

dnnl::memory Graph::view(const dnnl::memory& memory, const dnnl::memory::desc& desc) {
    dnnl::memory result(desc, engine_, memory.get_data_handle());
    kept_.push_back(memory);
    const bool is_input = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& each) {
        return each.get_data_handle() == memory.get_data_handle();
    });
    if (is_input) inputs_.push_back(result);
    return result;
}

void Graph::reorder(const dnnl::memory& from, const dnnl::memory& to) const {
    dnnl::memory source = from, target = to;
    dnnl::stream stream = stream_;
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
}

dnnl::memory Graph::input(const Shape& dims) {
    inputs_.push_back(empty(plain(dims)));
    return inputs_.back();
}

void Graph::set_input(const float* values) {
    // oneDNN's interface has no constant memory; no primitive writes to the input.
    for (auto& each : inputs_) each.set_data_handle(const_cast<float*>(values));
}

void Graph::run() const {
    for (const auto& [primitive, arguments] : series_) primitive.execute(stream_, arguments);
    dnnl::stream stream = stream_;
    stream.wait();
}

}  // namespace dlsuite
