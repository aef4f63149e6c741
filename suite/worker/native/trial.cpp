#include "trial.h"

#include "errors.h"

namespace dlsuite {

namespace {

constexpr int SCHEMA_VERSION = 12;

std::vector<NamedShape> named_shapes(const Json& values) {
    std::vector<NamedShape> result;
    for (const auto& each : values) {
        result.push_back({each.at("name"), each.at("shape").get<Shape>()});
    }
    return result;
}

Json without_dropout(const Json& layers) {
    Json kept = Json::array();
    for (Json layer : layers) {
        if (layer.at("kind") == "dropout") continue;
        if (layer.contains("branches")) {
            for (auto& branch : layer["branches"]) branch = without_dropout(branch);
        }
        kept.push_back(layer);
    }
    return kept;
}

template <typename T>
T value_or(const Json& values, const char* name, T otherwise) {
    return values.contains(name) && !values[name].is_null() ? values[name].get<T>() : otherwise;
}

void check(const Json& values) {
    if (values.at("schema_version") != SCHEMA_VERSION) {
        throw ValueError("trial.json has schema version " + values.at("schema_version").dump() +
                         ", this worker needs " + std::to_string(SCHEMA_VERSION));
    }
    if (values.at("precision") != "float32") {
        throw NotImplementedError("the worker computes in float32, not in " +
                                  values.at("precision").get<std::string>());
    }
    if (values.at("world_size") != 1) throw NotImplementedError("the worker has no ranks");
    if (!values.at("settings").empty()) {
        const std::string name = values.at("settings").begin().key();
        throw NotImplementedError("the worker has no setting " + name);
    }
}

}  // namespace

Shape Trial::batch_shape() const {
    Shape shape{batch_size};
    shape.insert(shape.end(), input_shape.begin(), input_shape.end());
    return shape;
}

Shape Trial::logits_shape() const { return {batch_size, classes}; }

Trial read_trial(const Json& values) {
    check(values);
    Trial trial;
    const Json& architecture = values.at("architecture");
    trial.mode = values.at("mode");
    trial.variant = values.at("variant");
    trial.device = values.at("device");
    trial.input = values.at("input");
    trial.scenario = value_or<std::string>(values, "scenario", "");
    trial.latency_bound_s = value_or<double>(values, "latency_bound_s", 0);
    trial.input_shape = architecture.at("input_shape").get<Shape>();
    trial.classes = architecture.at("classes");
    trial.layers = architecture.at("layers");
    if (trial.mode == "parity" || !trial.scenario.empty()) {
        trial.layers = without_dropout(trial.layers);
    }
    trial.batch_size = values.at("batch_size");
    trial.query_samples = value_or<std::int64_t>(values, "query_samples", 0);
    trial.epochs = values.at("epochs");
    trial.steps = values.at("steps");
    trial.closing = values.at("closing");
    trial.threads = value_or<int>(values, "threads", 0);
    if (!values.at("tf32").is_null()) trial.tf32 = values["tf32"].get<bool>();
    const std::int64_t seed = values.at("seed"), repeat = values.at("repeat");
    trial.seed = static_cast<std::uint64_t>(seed + repeat);
    trial.cpus = values.at("cpus").get<std::vector<int>>();
    trial.parameters = named_shapes(values.at("parameters"));
    trial.statistics = named_shapes(values.at("statistics"));
    trial.optimizer = values.at("optimizer");
    trial.measure = values.at("measure");
    trial.normalize = values.at("normalize");
    for (const auto& [name, path] : values.at("paths").items()) {
        if (path.is_string()) trial.paths[name] = path.get<std::string>();
    }
    return trial;
}

Tensors read_tensors(const std::filesystem::path& path, const std::vector<NamedShape>& named) {
    const NpyFile file(path);
    std::int64_t needed = 0;
    for (const auto& each : named) needed += product(each.shape);
    const auto found = product(file.shape());
    if (found != needed) {
        throw ValueError(path.string() + " holds " + std::to_string(found) +
                         " values, the tensors need " + std::to_string(needed));
    }
    Tensors result;
    if (named.empty()) return result;
    const float* values = file.floats();
    for (const auto& each : named) {
        const auto size = product(each.shape);
        result[each.name].assign(values, values + size);
        values += size;
    }
    return result;
}

}  // namespace dlsuite
