// Sketches: at most 256 sums that represent a tensor (docs/reference/protocol.md).
#pragma once

#include <vector>

#include "trial.h"

namespace dlsuite {

// The sketch (min(size, 256)) of the values in C order.
std::vector<double> sketch(const std::vector<float>& values);

// The sketches of the named tensors in that order, one after the other.
std::vector<double> sketches(const std::vector<NamedShape>& named, const Tensors& tensors);

// The values of the named tensors in that order, one after the other.
std::vector<float> flat(const std::vector<NamedShape>& named, const Tensors& tensors);

}  // namespace dlsuite
