// The files, the options and the stopwatch of the ladder's programs in C++, as in common.py.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ladder {

constexpr float learning_rate = 0.01f;
constexpr int batch = 64, shown = 8, warmup_calls = 100, warmup_steps = 2, pixels = 28 * 28;
constexpr int classes = 10;

using Predict = std::function<const float *(const float *image)>;
using TrainStep = std::function<float(const float *images, const int32_t *labels)>;

[[noreturn]] inline void fail(const std::string &what) {
    std::fprintf(stderr, "error: %s\n", what.c_str());
    std::exit(2);
}

// The values of an .npy file of `type`, such as "<f4", in C order.
template <typename T> std::vector<T> read_npy(const std::string &path, const std::string &type) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < 10 || bytes.substr(1, 5) != "NUMPY") fail(path + " is not an .npy file");
    size_t start = 10 + static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
    std::string header = bytes.substr(10, start - 10);
    bool right = header.find(type) != std::string::npos;
    if (!right || header.find("'fortran_order': False") == std::string::npos)
        fail(path + " is not of type " + type + " in C order");
    std::vector<T> values((bytes.size() - start) / sizeof(T));
    std::copy_n(bytes.data() + start, values.size() * sizeof(T),
                reinterpret_cast<char *>(values.data()));
    return values;
}

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

inline void print(const char *separator, double value) { std::printf("%s%.9g", separator, value); }

struct Options {
    std::vector<float> weights, images;
    std::vector<int32_t> labels;
    int infer = 0, train = 0;

    Options(int count, char **arguments) {
        if (count < 4) fail("usage: PROGRAM WEIGHTS INPUTS LABELS [--infer N] [--train STEPS]");
        weights = read_npy<float>(arguments[1], "<f4");
        images = read_npy<float>(arguments[2], "<f4");
        labels = read_npy<int32_t>(arguments[3], "<i4");
        if (weights.size() != 431080) fail("the weights are not those of LeNet");
        if (labels.size() < batch || images.size() != labels.size() * pixels)
            fail("the inputs are not 64 labelled images of 1 x 28 x 28 or more");
        for (int i = 4; i + 1 < count; i += 2) {
            std::string name = arguments[i];
            if (name != "--infer" && name != "--train") fail("unknown option " + name);
            (name == "--infer" ? infer : train) = std::atoi(arguments[i + 1]);
        }
    }
};

// Print the percentiles of timed calls with one image.
inline void latencies(const Predict &predict, const Options &given) {
    std::vector<double> timed;
    for (int i = -warmup_calls; i < given.infer; ++i) {
        const auto *image = &given.images[(i + warmup_calls) % given.labels.size() * pixels];
        double started = seconds();
        predict(image);
        if (i >= 0) timed.push_back(seconds() - started);
    }
    std::printf(", \"calls\": %zu", timed.size());
    if (timed.empty()) return void(std::printf(", \"p50_s\": null, \"p99_s\": null"));
    std::sort(timed.begin(), timed.end());
    for (int share : {50, 99}) {
        // Between two values, as numpy's quantile.
        double place = share / 100.0 * (timed.size() - 1);
        size_t low = place, high = std::min(low + 1, timed.size() - 1);
        double value = timed[low] + (place - low) * (timed[high] - timed[low]);
        std::printf(", \"p%d_s\": %.9g", share, value);
    }
}

// Print the losses of steps on the batches in order, and the rate after the warm-up.
inline void training(const TrainStep &step, const Options &given) {
    size_t batches = given.labels.size() / batch;
    std::printf(", \"losses\": [");
    double started = 0;
    for (int i = 0; i < given.train; ++i) {
        if (i == warmup_steps) started = seconds();
        size_t first = i % batches * batch;
        print(i ? ", " : "", step(&given.images[first * pixels], &given.labels[first]));
    }
    double timed = double(given.train - warmup_steps) * batch;
    std::printf("], \"samples_per_s\": ");
    timed > 0 ? print("", timed / (seconds() - started)) : void(std::printf("null"));
}

// Do what the options ask for, and print the result.
inline void run(const Options &given, const Predict &predict, const TrainStep &step) {
    std::printf("{\"logits\": [");
    for (int i = 0; i < shown; ++i) {
        const float *logits = predict(&given.images[i * pixels]);
        for (int k = 0; k < classes; ++k) print(k ? ", " : i ? "], [" : "[", logits[k]);
    }
    std::printf("]]");
    latencies(predict, given);
    training(step, given);
    std::printf("}\n");
}

}  // namespace ladder
