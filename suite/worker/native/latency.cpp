#include "latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace dlsuite {

namespace {

constexpr double CONFIDENCE = 0.99;

// LoadGen takes the value at this position of the sorted latencies.
double percentile_of(const std::vector<double>& sorted, double percentile) {
    const auto count = static_cast<double>(sorted.size());
    const auto position = static_cast<std::size_t>(count * percentile);
    return sorted[std::min(position, sorted.size() - 1)];
}

Json early_stopping(const std::vector<double>& sorted) {
    Json estimates = Json::object();
    const std::pair<const char*, double> percentiles[] = {{"90", 0.9}, {"99", 0.99}};
    const auto queries = static_cast<std::int64_t>(sorted.size());
    for (const auto& [name, percentile] : percentiles) {
        const auto beyond = early_stopping_queries(queries, percentile);
        if (beyond) estimates[name] = sorted[static_cast<std::size_t>(queries - beyond)];
    }
    return estimates;
}

}  // namespace

std::int64_t early_stopping_queries(std::int64_t queries, double percentile) {
    // The distribution function of the binomial distribution, term by term. The logarithm of a term
    // stays finite where the term itself underflows.
    const auto n = static_cast<double>(queries);
    const double ratio = std::log(1 - percentile) - std::log(percentile);
    double log_term = n * std::log(percentile);
    double probability = std::exp(log_term);
    std::int64_t beyond = -1;
    while (probability < 1 - CONFIDENCE && beyond < queries) {
        ++beyond;
        const auto k = static_cast<double>(beyond);
        log_term += std::log(n - k) - std::log(k + 1) + ratio;
        probability += std::exp(log_term);
    }
    return std::max<std::int64_t>(beyond, 0);
}

Json latency_statistics(std::vector<double> latencies) {
    std::sort(latencies.begin(), latencies.end());
    const double sum = std::accumulate(latencies.begin(), latencies.end(), 0.0);
    Json percentiles = {
        {"50", percentile_of(latencies, 0.5)},   {"90", percentile_of(latencies, 0.9)},
        {"95", percentile_of(latencies, 0.95)},  {"97", percentile_of(latencies, 0.97)},
        {"99", percentile_of(latencies, 0.99)},  {"99.9", percentile_of(latencies, 0.999)},
    };
    return {
        {"mean_s", sum / static_cast<double>(latencies.size())},
        {"min_s", latencies.front()},
        {"max_s", latencies.back()},
        {"percentiles_s", percentiles},
        {"early_stopping_s", early_stopping(latencies)},
    };
}

}  // namespace dlsuite
