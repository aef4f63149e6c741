#include "steady.h"

#include <algorithm>
#include <cmath>

namespace dlsuite {

namespace {

constexpr std::ptrdiff_t WINDOW = 3;
constexpr double CHANGE = 0.02;

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool is_steady(const std::vector<double>& values) {
    if (values.size() < 2 * WINDOW) return false;
    const double now = median({values.end() - WINDOW, values.end()});
    const double before = median({values.end() - 2 * WINDOW, values.end() - WINDOW});
    return std::abs(now - before) <= CHANGE * before;
}

}  // namespace dlsuite
