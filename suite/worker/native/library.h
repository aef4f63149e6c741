// The query library: the samples that queries take, normalized, in host memory.
#pragma once

#include <random>
#include <vector>

#include "backend.h"
#include "trial.h"

namespace dlsuite {

class Library {
  public:
    explicit Library(const Trial& trial);

    std::int64_t samples() const { return samples_; }
    std::int64_t classes() const { return classes_; }
    std::int64_t batch_size() const { return batch_size_; }

    // Answer `count` samples, at most a batch, with one call. A smaller batch is filled with its
    // last sample. The answers stay valid until the next call.
    const float* answer(Predictor& predictor, const std::int32_t* samples, std::int64_t count);

  private:
    std::int64_t samples_, classes_, batch_size_, sample_size_;
    std::vector<float> inputs_, batch_, logits_;
};

// The answers that are drawn at random during the queries.
class AnswerLog {
  public:
    // `share`: of the answers that are drawn.
    AnswerLog(const Library& library, double share, std::uint64_t seed);

    // Keep each of the answers with the probability `share`.
    void draw(const std::int32_t* samples, std::int64_t count, const float* logits);

    // Write answers_samples.npy and answers_logits.npy; return the number of answers.
    std::int64_t save(const std::filesystem::path& folder) const;

  private:
    std::int64_t classes_;
    double share_;
    std::mt19937_64 random_;
    std::uniform_real_distribution<double> uniform_;
    std::vector<std::int32_t> samples_;
    std::vector<float> logits_;
};

}  // namespace dlsuite
