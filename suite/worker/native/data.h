// Batches of the prepared dataset, in the order of the trial.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "npy.h"
#include "trial.h"

namespace dlsuite {

// Inputs (batch_size, ...) and labels (batch_size).
struct Batch {
    std::vector<float> inputs;
    std::vector<std::int32_t> labels;
};

// A split of the dataset, mapped from its files. Throw NotImplementedError for a text.
class Split {
  public:
    Split(const Trial& trial, const std::string& name);

    std::int64_t samples() const { return inputs_.shape().at(0); }
    std::int64_t sample_size() const { return sample_size_; }
    std::int32_t label(std::int64_t sample) const { return labels_.integers()[sample]; }

    // Normalize all inputs now; `take` then only copies them.
    void into_memory();

    // Write the normalized input of a sample, `sample_size` values.
    void take(std::int64_t sample, float* inputs) const;

    // The normalized inputs of the first samples, one after the other.
    std::vector<float> first(std::int64_t samples) const;

  private:
    void normalize(std::int64_t sample, float* inputs) const;

    NpyFile inputs_, labels_;
    std::int64_t sample_size_;
    std::vector<double> means_, stds_;         // of each channel
    std::vector<std::vector<float>> values_;  // of each channel and byte
    std::vector<float> in_memory_;
};

// The training split as an endless series of equal batches. The last batch of an epoch is completed
// from the start of its row of order.npy.
class Batches {
  public:
    explicit Batches(const Trial& trial);

    std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
    Split& split() { return split_; }

    // Write the batch of a step, from 0.
    void at(std::int64_t step, Batch& batch) const;

  private:
    Split split_;
    NpyFile order_;
    std::int64_t batch_size_, steps_per_epoch_;
};

// The batch of a step, by the trial's `input`: disk, host or device.
std::function<const Batch&(std::int64_t)> feed(const Trial& trial, Batches& batches);

}  // namespace dlsuite
