// Statistics of latencies, as MLCommons LoadGen defines them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trial.h"

namespace dlsuite {

// The number of queries beyond the estimate of a percentile: the largest t for which t or fewer of
// `queries` independent queries exceed the true percentile with a probability below 1 %. 0: there
// are too few queries for an estimate.
std::int64_t early_stopping_queries(std::int64_t queries, double percentile);

// The fields of the event `inference` that follow from the latencies in s: mean_s, min_s, max_s,
// percentiles_s and early_stopping_s.
Json latency_statistics(std::vector<double> latencies);

}  // namespace dlsuite
