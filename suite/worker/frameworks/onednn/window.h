// The windows of convolutions and pools, as oneDNN describes them.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "trial.h"

namespace dlsuite {

struct Window {
    dnnl::memory::dims kernel, stride, before, after;  // height, width
    dnnl::memory::dims dilation{0, 0};
    Shape output;  // height, width
};

// The window of a layer with `kernel`, `stride` and `padding` on an image (N, C, height, width).
// Where `ceil` is true, padding is added for an incomplete last window.
Window window_of(const Json& layer, const Shape& image);

// The average pool of one window, the whole image.
Json window_of_all(const Shape& image);

}  // namespace dlsuite
