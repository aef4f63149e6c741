#include "evaluation.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace dlsuite {

namespace {

struct Score {
    double loss = 0, loss_error = 0, accuracy = 0;
};

// -log softmax(logits)[label], in float64.
double cross_entropy(const float* logits, std::int64_t classes, std::int32_t label) {
    const double highest = *std::max_element(logits, logits + classes);
    double sum = 0;
    for (std::int64_t each = 0; each < classes; ++each) sum += std::exp(logits[each] - highest);
    return std::log(sum) - (logits[label] - highest);
}

// The score of the first samples; the last batch is filled with its last sample.
Score score(const Trial& trial, Trainer& trainer, const Split& split, std::int64_t samples) {
    const auto size = trial.batch_size, classes = trial.classes;
    std::vector<float> inputs(static_cast<std::size_t>(size * split.sample_size()));
    std::vector<float> logits(static_cast<std::size_t>(size * classes));
    double sum = 0, squares = 0, correct = 0;
    for (std::int64_t first = 0; first < samples; first += size) {
        for (std::int64_t i = 0; i < size; ++i) {
            split.take(std::min(first + i, samples - 1), inputs.data() + i * split.sample_size());
        }
        trainer.predict(inputs.data(), logits.data());
        for (std::int64_t i = 0; i < std::min(size, samples - first); ++i) {
            const float* own = logits.data() + i * classes;
            const auto label = split.label(first + i);
            const double loss = cross_entropy(own, classes, label);
            sum += loss;
            squares += loss * loss;
            correct += std::max_element(own, own + classes) - own == label;
        }
    }
    const auto count = static_cast<double>(samples);
    const double mean = sum / count, variance = std::max(0.0, squares / count - mean * mean);
    return {mean, std::sqrt(variance / count), correct / count};
}

}  // namespace

Json evaluate(const Trial& trial, Trainer& trainer, const Split& train) {
    const Split test(trial, "test");
    const Score on_test = score(trial, trainer, test, test.samples());
    const auto samples = std::min(test.samples(), train.samples());
    const Score on_train = score(trial, trainer, train, samples);
    return {
        {"test_samples", test.samples()},      {"test_loss", on_test.loss},
        {"test_accuracy", on_test.accuracy},   {"test_loss_error", on_test.loss_error},
        {"train_loss", on_train.loss},         {"train_accuracy", on_train.accuracy},
    };
}

}  // namespace dlsuite
