// A fixed series of oneDNN primitives with their memory.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "trial.h"

namespace dlsuite {

using Arguments = std::unordered_map<int, dnnl::memory>;
using Tag = dnnl::memory::format_tag;

constexpr auto F32 = dnnl::memory::data_type::f32;

// The descriptor of float32 values in C order, and one whose layout oneDNN chooses.
dnnl::memory::desc plain(const Shape& dims);
dnnl::memory::desc any(const Shape& dims);

class Graph {
  public:
    Graph(const dnnl::engine& engine, const dnnl::stream& stream)
        : engine_(engine), stream_(stream) {}

    const dnnl::engine& engine() const { return engine_; }

    dnnl::memory empty(const dnnl::memory::desc& desc) const { return {desc, engine_}; }

    // Memory with these values in C order.
    dnnl::memory constant(const Shape& dims, const std::vector<float>& values) const;

    // Append a primitive to the series.
    void add(const dnnl::primitive& primitive, const Arguments& arguments);

    // The memory in the layout `desc`: itself, or a copy that the series makes.
    dnnl::memory in_layout(const dnnl::memory& memory, const dnnl::memory::desc& desc);

    // A copy in the layout `desc` that the series makes.
    dnnl::memory copy(const dnnl::memory& memory, const dnnl::memory::desc& desc);

    // Append a copy into other memory.
    void add_reorder(const dnnl::memory& from, const dnnl::memory& to);

    // The same bytes under another descriptor. Where they are the input, so is the view.
    dnnl::memory view(const dnnl::memory& memory, const dnnl::memory::desc& desc);

    // Copy now, into another layout.
    void reorder(const dnnl::memory& from, const dnnl::memory& to) const;

    // Memory whose bytes `set_input` replaces by the caller's.
    dnnl::memory input(const Shape& dims);
    void set_input(const float* values);

    // Run the series; return when it is done.
    void run() const;

  private:
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::vector<std::pair<dnnl::primitive, Arguments>> series_;
    std::vector<dnnl::memory> inputs_;  // the input and its views
    std::vector<dnnl::memory> kept_;    // memory with views
};

}  // namespace dlsuite
