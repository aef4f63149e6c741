// The weights of a convolution into which the batch norm after it is folded.
#pragma once

#include "trial.h"

namespace dlsuite {

struct Folded {
    std::vector<float> weight;  // (out, in, height, width)
    std::vector<float> bias;    // (out), or empty where there is none
};

// The weights of the convolution `layer` and of the batch norm `norm` as one; `norm` may be null.
Folded folded(const Json& layer, const Json* norm, const Tensors& weights,
              const Tensors& statistics);

}  // namespace dlsuite
