// How queries are issued, and their latencies.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "events.h"
#include "interleaving.h"
#include "library.h"
#include "trial.h"

namespace dlsuite {

// How many queries, and for how long.
struct Request {
    double min_s, max_s;
    std::int64_t min_queries;  // of samples in scenario offline
    double log_share = 0;      // of the answers that are kept
    double rate_per_s = 0;     // of the arrivals in scenario server
};

struct Outcome {
    std::vector<double> latencies;  // in s, of each query
    std::int64_t samples = 0;
    double duration_s = 0;
};

// The blocks of queries of an interleaved worker, which passes its turn on after each of them.
class Blocks {
  public:
    Blocks(const Interleaving& turns, const Trial& trial, double call_s)
        : turns_(turns),
          block_s_(trial.measure.at("interleaved_block_s")),
          lead_in_s_(call_s < LONG_STEP_S ? LEAD_IN_S : 0),
          random_(std::random_device()()) {
        start();
    }

    // To be called after each query; a turn begins with untimed calls.
    template <typename Call>
    void after_query(Call call) {
        if (monotonic_s() < end_s_) return;
        turns_.end_turn();
        turns_.begin_turn();
        const double started_s = monotonic_s();
        while (monotonic_s() < started_s + lead_in_s_) call();
        start();
    }

  private:
    void start() {
        std::uniform_real_distribution<double> share(1 - JITTER, 1 + JITTER);
        end_s_ = monotonic_s() + block_s_ * share(random_);
    }

    const Interleaving& turns_;
    double block_s_, lead_in_s_, end_s_ = 0;
    std::mt19937_64 random_;
};

// Issue the queries of the trial's scenario. `blocks`: of an interleaved worker, else null.
Outcome run_queries(const Trial& trial, Library& library, Predictor& predictor,
                    const Request& request, AnswerLog& log, Blocks* blocks = nullptr);

}  // namespace dlsuite
