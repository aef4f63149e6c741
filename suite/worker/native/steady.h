// Medians, and the end of a warm-up.
#pragma once

#include <vector>

namespace dlsuite {

double median(std::vector<double> values);

// Whether the last three values are as large as the three before them, to 2 %.
bool is_steady(const std::vector<double>& values);

}  // namespace dlsuite
