// Training: timed blocks of steps, and the evaluation at the end of each epoch.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "backend.h"
#include "data.h"
#include "disturbance.h"
#include "events.h"
#include "interleaving.h"

namespace dlsuite {

// The training of one run. Blocks begin and end synchronized; no loss is read inside them.
class Training {
  public:
    Training(const Trial& trial, Trainer& trainer, Events& events, const Interleaving& turns);

    // Train for the requested epochs, and then until the rate is certain.
    void run();

    // Do `steps` steps; return their duration in s.
    double block(std::int64_t steps);

    // The loss of the last step. Throw ArithmeticError where it is not finite.
    double read_loss();

    std::int64_t step() const { return step_; }
    double step_s() const { return step_s_; }  // the mean duration of a step in the last block

  private:
    void first_step();
    void next_block();
    void report(std::int64_t steps, double duration_s, const Counters& increase);
    void count(double rate, double duration_s, bool disturbed);
    void end_warm_up(double last_rate);
    void calibrate(double step_s);
    void end_epoch();
    void report_steps();
    bool rate_is_certain() const;
    std::int64_t steps_left() const { return trial_.epochs * batches_.steps_per_epoch() - step_; }
    double measure(const char* name) const { return trial_.measure.at(name).get<double>(); }

    const Trial& trial_;
    Trainer& trainer_;
    Events& events_;
    const Interleaving& turns_;
    Batches batches_;
    std::function<const Batch&(std::int64_t)> feed_;
    std::mt19937_64 random_;
    std::int64_t step_ = 0, lead_in_steps_ = 0;
    double step_s_ = 0, block_steps_ = 0, min_block_s_ = 0, measured_s_ = 0, epoch_s_ = 0;
    double loss_wait_s_ = 0, disturbed_s_ = 0;
    bool warm_ = false;
    std::size_t warmup_blocks_ = 0;
    std::vector<double> warmup_, rates_;  // samples per second of each undisturbed block
    Meter meter_;
    Judge judge_;
};

}  // namespace dlsuite
