#include "data.h"

#include <algorithm>
#include <cstring>

#include "errors.h"

namespace dlsuite {

namespace {

constexpr std::int64_t DEVICE_BATCHES = 8;  // with input `device`, used in rotation
constexpr int BYTES = 256;

std::filesystem::path file_of(const Trial& trial, const std::string& name) {
    const auto& folder = trial.paths.at("data");
    if (std::filesystem::exists(folder / "train_tokens.npy")) {
        throw NotImplementedError("the worker reads no text");
    }
    return folder / (name + ".npy");
}

}  // namespace

Split::Split(const Trial& trial, const std::string& name)
    : inputs_(file_of(trial, name + "_inputs")),
      labels_(file_of(trial, name + "_labels")),
      sample_size_(product(trial.input_shape)),
      means_(trial.normalize.at("mean").get<std::vector<double>>()),
      stds_(trial.normalize.at("std").get<std::vector<double>>()) {
    Shape shape = trial.input_shape;
    shape.insert(shape.begin(), inputs_.shape().at(0));
    if (shape != inputs_.shape()) {
        throw ValueError("the data has another shape than the input of the model");
    }
    for (std::size_t channel = 0; channel < means_.size(); ++channel) {
        auto& values = values_.emplace_back(BYTES);
        for (int byte = 0; byte < BYTES; ++byte) {
            values[static_cast<std::size_t>(byte)] =
                static_cast<float>((byte / 255.0 - means_[channel]) / stds_[channel]);
        }
    }
}

void Split::into_memory() { in_memory_ = first(samples()); }

std::vector<float> Split::first(std::int64_t samples) const {
    std::vector<float> result(static_cast<std::size_t>(samples * sample_size_));
    for (std::int64_t sample = 0; sample < samples; ++sample) {
        normalize(sample, result.data() + sample * sample_size_);
    }
    return result;
}

void Split::take(std::int64_t sample, float* inputs) const {
    if (in_memory_.empty()) return normalize(sample, inputs);
    const auto size_bytes = static_cast<std::size_t>(sample_size_) * sizeof(float);
    std::memcpy(inputs, in_memory_.data() + sample * sample_size_, size_bytes);
}

void Split::normalize(std::int64_t sample, float* inputs) const {
    const auto channels = static_cast<std::int64_t>(means_.size());
    const auto area = sample_size_ / channels;
    if (inputs_.type() == "|u1") {
        const std::uint8_t* raw = inputs_.bytes() + sample * sample_size_;
        for (std::int64_t i = 0; i < sample_size_; ++i) {
            inputs[i] = values_[static_cast<std::size_t>(i / area)][raw[i]];
        }
        return;
    }
    const float* raw = inputs_.floats() + sample * sample_size_;
    for (std::int64_t i = 0; i < sample_size_; ++i) {
        inputs[i] = static_cast<float>((double{raw[i]} - means_[0]) / stds_[0]);
    }
}

Batches::Batches(const Trial& trial)
    : split_(trial, "train"), order_(trial.paths.at("order")), batch_size_(trial.batch_size) {
    steps_per_epoch_ = (order_.shape().at(1) + batch_size_ - 1) / batch_size_;
}

void Batches::at(std::int64_t step, Batch& batch) const {
    const auto samples = order_.shape().at(1);
    const auto row = step / steps_per_epoch_ % order_.shape().at(0);
    const std::int32_t* order = order_.integers() + row * samples;
    const auto start = step % steps_per_epoch_ * batch_size_;
    batch.inputs.resize(static_cast<std::size_t>(batch_size_ * split_.sample_size()));
    batch.labels.resize(static_cast<std::size_t>(batch_size_));
    for (std::int64_t i = 0; i < batch_size_; ++i) {
        const auto sample = order[(start + i) % samples];
        split_.take(sample, batch.inputs.data() + i * split_.sample_size());
        batch.labels[static_cast<std::size_t>(i)] = split_.label(sample);
    }
}

std::function<const Batch&(std::int64_t)> feed(const Trial& trial, Batches& batches) {
    if (trial.input == "device") {
        const auto count = std::min(DEVICE_BATCHES, batches.steps_per_epoch());
        auto resident = std::make_shared<std::vector<Batch>>(static_cast<std::size_t>(count));
        for (std::int64_t step = 0; step < count; ++step) {
            batches.at(step, (*resident)[static_cast<std::size_t>(step)]);
        }
        return [resident](std::int64_t step) -> const Batch& {
            return (*resident)[static_cast<std::size_t>(step) % resident->size()];
        };
    }
    if (trial.input == "host") {
        batches.split().into_memory();
    } else if (trial.input != "disk") {
        throw NotImplementedError("the worker has no input " + trial.input);
    }
    auto batch = std::make_shared<Batch>();
    return [batch, &batches](std::int64_t step) -> const Batch& {
        batches.at(step, *batch);
        return *batch;
    };
}

}  // namespace dlsuite
