#include "fold.h"

#include <cmath>

namespace dlsuite {

Folded folded(const Json& layer, const Json* norm, const Tensors& weights,
              const Tensors& statistics) {
    const std::string name = layer.at("name");
    Folded result{weights.at(name + ".weight"), {}};
    if (layer.at("bias")) result.bias = weights.at(name + ".bias");
    if (!norm) return result;
    const std::string norm_name = norm->at("name");
    const auto& scale = weights.at(norm_name + ".weight");
    const auto& shift = weights.at(norm_name + ".bias");
    const auto& mean = statistics.at(norm_name + ".mean");
    const auto& variance = statistics.at(norm_name + ".variance");
    const double epsilon = norm->at("epsilon");
    result.bias.resize(scale.size());  // 0 where the convolution has no bias
    const auto size = result.weight.size() / scale.size();
    for (std::size_t out = 0; out < scale.size(); ++out) {
        const double factor = scale[out] / std::sqrt(variance[out] + epsilon);
        for (std::size_t i = out * size; i < (out + 1) * size; ++i) {
            result.weight[i] = static_cast<float>(result.weight[i] * factor);
        }
        result.bias[out] =
            static_cast<float>((double{result.bias[out]} - mean[out]) * factor + shift[out]);
    }
    return result;
}

}  // namespace dlsuite
