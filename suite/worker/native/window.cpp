#include "window.h"

namespace dlsuite {

Window window_of(const Json& layer, const Shape& image) {
    Window window;
    const bool ceil = layer.value("ceil", false);
    for (std::size_t axis = 0; axis < 2; ++axis) {
        const std::int64_t kernel = layer.at("kernel")[axis], stride = layer.at("stride")[axis],
                           padding = layer.at("padding")[axis],
                           extra = layer.at("extra_padding")[axis];
        const auto rest = image[2 + axis] + 2 * padding + extra - kernel;
        const auto output = (rest + (ceil ? stride - 1 : 0)) / stride + 1;
        window.kernel.push_back(kernel);
        window.stride.push_back(stride);
        window.before.push_back(padding);
        window.after.push_back((output - 1) * stride + kernel - image[2 + axis] - padding);
        window.output.push_back(output);
    }
    return window;
}

Json window_of_all(const Shape& image) {
    return {{"kind", "avg_pool2d"},
            {"kernel", {image[2], image[3]}},
            {"stride", {1, 1}},
            {"padding", {0, 0}},
            {"extra_padding", {0, 0}},
            {"count_padding", true}};
}

}  // namespace dlsuite
