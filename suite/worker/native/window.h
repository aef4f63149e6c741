// The windows of convolutions and pools.
#pragma once

#include "trial.h"

namespace dlsuite {

struct Window {
    // Of height and width. `before` and `after` are the padding.
    Shape kernel, stride, before, after, output;
    Shape dilation{0, 0};
};

// The window of a layer with `kernel`, `stride` and `padding` on an image (N, C, height, width).
// Where `ceil` is true, padding is added for an incomplete last window.
Window window_of(const Json& layer, const Shape& image);

// The average pool of one window, the whole image.
Json window_of_all(const Shape& image);

}  // namespace dlsuite
