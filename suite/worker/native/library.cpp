#include "library.h"

#include <algorithm>
#include <cstring>

#include "data.h"
#include "errors.h"

namespace dlsuite {

namespace {

std::vector<float> first_samples(const Trial& trial) {
    const Split split(trial, "test");
    if (trial.query_samples < 1 || trial.query_samples > split.samples()) {
        throw ValueError("query_samples is " + std::to_string(trial.query_samples) +
                         ", the split test has " + std::to_string(split.samples()));
    }
    return split.first(trial.query_samples);
}

}  // namespace

Library::Library(const Trial& trial)
    : samples_(trial.query_samples),
      classes_(trial.classes),
      batch_size_(trial.batch_size),
      sample_size_(product(trial.input_shape)),
      inputs_(first_samples(trial)),
      batch_(static_cast<std::size_t>(batch_size_ * sample_size_)),
      logits_(static_cast<std::size_t>(batch_size_ * classes_)) {}

const float* Library::answer(Predictor& predictor, const std::int32_t* samples,
                             std::int64_t count) {
    const float* inputs = inputs_.data() + samples[0] * sample_size_;
    if (batch_size_ > 1) {
        const auto size_bytes = static_cast<std::size_t>(sample_size_) * sizeof(float);
        for (std::int64_t i = 0; i < batch_size_; ++i) {
            const auto sample = samples[std::min(i, count - 1)];
            std::memcpy(batch_.data() + i * sample_size_, inputs_.data() + sample * sample_size_,
                        size_bytes);
        }
        inputs = batch_.data();
    }
    predictor.predict(inputs, logits_.data());
    return logits_.data();
}

AnswerLog::AnswerLog(const Library& library, double share, std::uint64_t seed)
    : classes_(library.classes()), share_(share), random_(seed), uniform_(0.0, 1.0) {}

void AnswerLog::draw(const std::int32_t* samples, std::int64_t count, const float* logits) {
    for (std::int64_t i = 0; i < count; ++i) {
        if (uniform_(random_) >= share_) continue;
        samples_.push_back(samples[i]);
        logits_.insert(logits_.end(), logits + i * classes_, logits + (i + 1) * classes_);
    }
}

std::int64_t AnswerLog::save(const std::filesystem::path& folder) const {
    const auto count = static_cast<std::int64_t>(samples_.size());
    std::filesystem::create_directory(folder);
    save_npy(folder / "answers_samples.npy", {count}, samples_.data());
    save_npy(folder / "answers_logits.npy", {count, classes_}, logits_.data());
    return count;
}

}  // namespace dlsuite
