#include "sketch.h"

#include <cstdint>

namespace dlsuite {

namespace {

constexpr std::size_t SIZE = 256;

std::uint64_t splitmix64(std::uint64_t i) {
    std::uint64_t z = i + 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

}  // namespace

std::vector<double> sketch(const std::vector<float>& values) {
    if (values.size() <= SIZE) return {values.begin(), values.end()};
    std::vector<double> sums(SIZE);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto hash = splitmix64(i);
        sums[hash % SIZE] += hash & SIZE ? -values[i] : values[i];
    }
    return sums;
}

std::vector<double> sketches(const std::vector<NamedShape>& named, const Tensors& tensors) {
    std::vector<double> result;
    for (const auto& each : named) {
        const auto part = sketch(tensors.at(each.name));
        result.insert(result.end(), part.begin(), part.end());
    }
    return result;
}

std::vector<float> flat(const std::vector<NamedShape>& named, const Tensors& tensors) {
    std::vector<float> result;
    for (const auto& each : named) {
        const auto& part = tensors.at(each.name);
        result.insert(result.end(), part.begin(), part.end());
    }
    return result;
}

}  // namespace dlsuite
