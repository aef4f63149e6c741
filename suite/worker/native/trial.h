// The task of a worker: the fields of trial.json (docs/reference/protocol.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "npy.h"

namespace dlsuite {

using Json = nlohmann::json;

// A tensor of the model, in canonical layout.
struct NamedShape {
    std::string name;
    Shape shape;
};

// Values of tensors in canonical layout, by the name of the tensor.
using Tensors = std::map<std::string, std::vector<float>>;

struct Trial {
    std::string mode;
    std::string variant;
    std::string device;
    std::string input;
    std::string scenario;  // empty in training
    Json layers;           // without dropout in mode parity and in inference
    Shape input_shape;     // of a sample
    std::int64_t classes = 0;
    std::int64_t batch_size = 0;
    std::int64_t query_samples = 0;  // 0 in training
    double latency_bound_s = 0;      // of 99 % of the queries of scenario server
    std::int64_t epochs = 0;
    std::int64_t steps = 0;
    bool closing = false;
    int threads = 0;  // 0: as many as CPUs
    std::optional<bool> tf32;  // whether a GPU may multiply in TF32; empty: the default
    std::uint64_t seed = 0;  // of this repeat
    std::vector<int> cpus;
    std::vector<NamedShape> parameters;
    std::vector<NamedShape> statistics;
    Json optimizer;  // null in inference
    Json measure;
    Json normalize;
    std::map<std::string, std::filesystem::path> paths;

    std::filesystem::path results() const { return paths.at("results"); }
    bool interleaved() const { return paths.count("interleaving") > 0; }
    Shape batch_shape() const;   // (batch_size, ...)
    Shape logits_shape() const;  // (batch_size, classes)
};

// The trial in trial.json. Throw ValueError where its schema version is another, and
// NotImplementedError where it asks for what no program of this folder can do.
Trial read_trial(const Json& values);

// The named tensors in a file that holds their values one after the other. Throw ValueError where
// the file has another number of values.
Tensors read_tensors(const std::filesystem::path& path, const std::vector<NamedShape>& named);

}  // namespace dlsuite
