#include "training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "errors.h"
#include "evaluation.h"
#include "steady.h"

namespace dlsuite {

namespace {

// The values of suite/worker/loop.py, which gives the reasons.
constexpr double CALIBRATION_STEPS = 5;
constexpr double SYNCHRONIZE_SHARE = 0.005;
constexpr int SYNCHRONIZE_CALLS = 20;
constexpr double EXTRA_S = 3;

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_error(const std::vector<double>& values) {
    const double center = mean(values);
    double sum = 0;
    for (double value : values) sum += (value - center) * (value - center);
    const auto count = static_cast<double>(values.size());
    return std::sqrt(sum / (count - 1) / count);
}

}  // namespace

Training::Training(const Trial& trial, Trainer& trainer, Events& events, const Interleaving& turns)
    : trial_(trial),
      trainer_(trainer),
      events_(events),
      turns_(turns),
      batches_(trial),
      feed_(feed(trial, batches_)),
      random_(std::random_device()()),
      block_steps_(CALIBRATION_STEPS),
      meter_(trial.cpus),
      judge_(trial.cpus.size()) {}

void Training::run() {
    first_step();
    while (steps_left() > 0 || !rate_is_certain()) next_block();
    report_steps();
}

double Training::block(std::int64_t steps) {
    trainer_.synchronize();
    const double started_s = monotonic_s();
    for (const auto last = step_ + steps; step_ < last; ++step_) {
        const Batch& batch = feed_(step_);
        trainer_.train_step(batch.inputs.data(), batch.labels.data());
    }
    trainer_.synchronize();
    const double duration_s = monotonic_s() - started_s;
    step_s_ = duration_s / static_cast<double>(steps);
    return duration_s;
}

double Training::read_loss() {
    const double started_s = monotonic_s();
    const double loss = trainer_.loss();
    const double first_s = monotonic_s() - started_s;
    trainer_.loss();
    loss_wait_s_ = std::max(0.0, first_s - (monotonic_s() - started_s - first_s));
    if (!std::isfinite(loss)) {
        throw ArithmeticError("the loss is not finite after " + std::to_string(step_) + " steps");
    }
    return loss;
}

void Training::first_step() {
    {
        const Turn turn(turns_);
        epoch_s_ = block(1);
        std::vector<double> durations;
        for (int call = 0; call < SYNCHRONIZE_CALLS; ++call) {
            const double started_s = monotonic_s();
            trainer_.synchronize();
            durations.push_back(monotonic_s() - started_s);
        }
        const double synchronize_s = median(durations);
        min_block_s_ = synchronize_s / SYNCHRONIZE_SHARE;
        events_.emit("compiled", {{"first_step_s", epoch_s_},
                                  {"synchronize_s", synchronize_s},
                                  {"loss", read_loss()}});
    }
    end_epoch();
}

void Training::next_block() {
    const auto per_epoch = batches_.steps_per_epoch();
    const auto left = steps_left() > 0 ? per_epoch - step_ % per_epoch : INT64_MAX;
    std::int64_t lead_in = 0, steps = std::max<std::int64_t>(1, std::llround(block_steps_));
    if (lead_in_steps_) {
        std::uniform_real_distribution<double> jitter(1 - JITTER, 1 + JITTER), rounding(0, 1);
        // Rounding at random keeps the mean length; rounding to the nearest would not.
        const double length = std::floor(block_steps_ * jitter(random_) + rounding(random_));
        steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(length));
        lead_in = std::min(lead_in_steps_, left - 1);
    }
    steps = std::min(steps, left - lead_in);
    {
        const Turn turn(turns_);  // the report is in the turn too, because it also computes
        if (lead_in) epoch_s_ += block(lead_in);
        const auto before = meter_.read();
        const double duration_s = block(steps);
        report(steps, duration_s, meter_.read() - before);
    }
    end_epoch();
}

void Training::report(std::int64_t steps, double duration_s, const Counters& increase) {
    epoch_s_ += duration_s;
    const double rate = static_cast<double>(steps * trial_.batch_size) / duration_s;
    const bool disturbed = judge_(increase, duration_s);
    count(rate, duration_s, disturbed);
    const double loss = read_loss();
    const double left_s =
        steps_left() > 0 ? static_cast<double>(steps_left() * trial_.batch_size) / rate
                         : std::max(measure("max_measure_s") - measured_s_, 0.0);
    events_.emit(warm_ ? "block" : "warmup", {{"step", step_},
                                              {"steps", steps},
                                              {"duration_s", duration_s},
                                              {"samples_per_s", rate},
                                              {"loss", loss},
                                              {"loss_wait_s", loss_wait_s_},
                                              {"left_s", left_s},
                                              {"disturbed", disturbed},
                                              {"disturbance", to_json(increase)}});
    if (!warm_) end_warm_up(rate);
}

void Training::count(double rate, double duration_s, bool disturbed) {
    if (!warm_) ++warmup_blocks_;
    if (!disturbed) (warm_ ? rates_ : warmup_).push_back(rate);
    if (warm_) (disturbed ? disturbed_s_ : measured_s_) += duration_s;
}

void Training::end_warm_up(double last_rate) {
    // The first block is the calibration.
    const auto first = warmup_.begin() + (warmup_.empty() ? 0 : 1);
    const bool steady = is_steady({first, warmup_.end()});
    warm_ = steady || static_cast<double>(warmup_blocks_) >= measure("max_warmup_blocks");
    if (warm_) events_.emit("warm", {{"blocks", warmup_blocks_}, {"steady", steady}});
    const auto window = static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, warmup_.size()));
    const double rate =
        window ? median({warmup_.end() - window, warmup_.end()}) : last_rate;
    calibrate(static_cast<double>(trial_.batch_size) / rate);
}

void Training::calibrate(double step_s) {
    const bool interleaved = warm_ && trial_.interleaved();
    const double block_s = measure(interleaved ? "interleaved_block_s" : "block_s");
    block_steps_ = std::max(block_s, min_block_s_) / step_s;
    if (interleaved && step_s < LONG_STEP_S) {
        lead_in_steps_ = static_cast<std::int64_t>(std::ceil(LEAD_IN_S / step_s));
    }
}

bool Training::rate_is_certain() const {
    const double most_s = measure("max_measure_s");
    const double extra_s = std::min(disturbed_s_, std::max(EXTRA_S, most_s));
    if (measured_s_ + disturbed_s_ >= most_s + extra_s) return true;
    if (trial_.interleaved() || measured_s_ < measure("min_measure_s") || rates_.size() < 2) {
        return false;
    }
    return 2 * standard_error(rates_) <= measure("relative_error") * mean(rates_);
}

void Training::report_steps() {
    const Turn turn(turns_);
    events_.emit("trained", {{"steps", step_}, {"optimizer_steps", trainer_.step_count()}});
}

void Training::end_epoch() {
    const auto per_epoch = batches_.steps_per_epoch();
    if (step_ % per_epoch || steps_left() < 0) return;
    Json values = {{"epoch", step_ / per_epoch}, {"duration_s", epoch_s_}};
    {
        const Turn turn(turns_);
        values.update(evaluate(trial_, trainer_, batches_.split()));
    }
    for (const auto& value : values) {
        if (value.is_number_float() && !std::isfinite(value.get<double>())) {
            throw ArithmeticError("the loss of the evaluation is not finite after " +
                                  std::to_string(step_) + " steps");
        }
    }
    events_.emit("epoch", values);
    epoch_s_ = 0;
}

}  // namespace dlsuite
