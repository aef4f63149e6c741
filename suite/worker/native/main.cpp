// A worker (docs/reference/protocol.md): the program runs the trial in the folder of its last argument.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>

#include "backend.h"
#include "errors.h"
#include "events.h"
#include "inference.h"
#include "interleaving.h"
#include "proof.h"
#include "training.h"

namespace dlsuite {

namespace {

// Variables of the launcher (suite/worker/native/program.py): the clock when it ended, and the sampler's
// process id with the file that ends it.
constexpr const char* STARTED = "DLSUITE_STARTED_NS";
constexpr const char* SAMPLER = "DLSUITE_SAMPLER";

// The process that samples the machine, if the launcher started one; it ends with this object.
class Sampler {
  public:
    Sampler() {
        if (const char* text = std::getenv(SAMPLER)) std::istringstream(text) >> process_ >> file_;
    }
    ~Sampler() {
        if (process_ < 0) return;
        ::close(file_);
        waitpid(process_, nullptr, 0);
    }
    Sampler(const Sampler&) = delete;
    Sampler& operator=(const Sampler&) = delete;

  private:
    int process_ = -1, file_ = -1;
};

void pin(const std::vector<int>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
    sched_setaffinity(0, sizeof set, &set);  // best effort, as in the other workers
}

std::int64_t rss_peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) return 1024 * std::stoll(line.substr(6));
    }
    return 0;
}

void report_memory(Backend& backend, Events& events) {
    Json values = {{"host_rss_peak_bytes", rss_peak_bytes()}};
    values.update(backend.memory());
    events.emit("memory", values);
}

std::unique_ptr<Backend> start(const Trial& trial, double started_s, Events& events) {
    auto backend = make_backend(trial);
    events.emit("started", {{"import_s", monotonic_s() - started_s},
                            {"framework_version", backend_version()},
                            {"versions", backend->versions()}});
    return backend;
}

// Emit that the model is built; `build_s` includes the layouts that the library chose.
void report_built(const Trial& trial, Backend& backend, double started_s, Events& events) {
    std::int64_t parameters = 0;
    for (const auto& each : trial.parameters) parameters += product(each.shape);
    events.emit("built", {{"build_s", monotonic_s() - started_s},
                          {"parameters", parameters},
                          {"device", backend.device(trial)}});
}

void run_inference(const Trial& trial, double started_s, Events& events,
                   const Interleaving& turns) {
    const Turn turn(turns);
    check_scenario(trial);
    const auto backend = start(trial, started_s, events);
    const auto weights = read_tensors(trial.paths.at("weights"), trial.parameters);
    const auto statistics = read_tensors(trial.paths.at("statistics"), trial.statistics);
    const double build_started_s = monotonic_s();
    const auto predictor = backend->predictor(trial, weights, statistics);
    report_built(trial, *backend, build_started_s, events);
    if (trial.mode == "infer") {
        infer(trial, *predictor, events, turns, [&] { report_memory(*backend, events); });
    } else {
        answer_all(trial, *predictor, events);
        report_memory(*backend, events);
    }
}

void run_training(const Trial& trial, double started_s, Events& events, const Interleaving& turns) {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Trainer> trainer;
    {
        const Turn turn(turns);
        backend = start(trial, started_s, events);
        const auto weights = read_tensors(trial.paths.at("weights"), trial.parameters);
        const double build_started_s = monotonic_s();
        trainer = backend->trainer(trial, weights);
        report_built(trial, *backend, build_started_s, events);
    }
    if (trial.mode == "parity") {
        prove_steps(trial, *trainer, events);
        report_memory(*backend, events);
        return;
    }
    auto training = [&] {
        const Turn turn(turns);  // preparing the data computes
        return Training(trial, *trainer, events, turns);
    }();
    training.run();
    report_memory(*backend, events);  // before the closing proof, whose copies are the worker's
    if (!trial.closing) return;
    const Turn turn(turns);
    close(trial, *trainer, training, events);
}

void run(const Trial& trial, double started_s, Events& events) {
    if (trial.mode != "train" && trial.mode != "parity" && trial.mode != "infer") {
        throw NotImplementedError("the worker has no mode " + trial.mode);
    }
    const Interleaving turns(trial);
    {
        const Sampler sampler;
        pin(trial.cpus);
        (trial.scenario.empty() ? run_training : run_inference)(trial, started_s, events, turns);
    }
    turns.wait_for_all();
    events.emit("finished");
}

// The name of the class of an error, as in the workers in Python.
std::string class_of(const std::exception& error) {
    if (dynamic_cast<const NotImplementedError*>(&error)) return "NotImplementedError";
    if (dynamic_cast<const ArithmeticError*>(&error)) return "ArithmeticError";
    if (dynamic_cast<const std::bad_alloc*>(&error)) return "MemoryError";
    if (dynamic_cast<const ValueError*>(&error)) return "ValueError";
    if (dynamic_cast<const Json::exception*>(&error)) return "ValueError";
    return "RuntimeError";
}

int worker(const std::filesystem::path& folder) {
    const char* stamp = std::getenv(STARTED);
    const double started_s = stamp ? std::stod(stamp) / 1e9 : monotonic_s();
    std::ifstream file(folder / "trial.json");
    const Json values = Json::parse(file);
    Events events(values.at("paths").at("results").get<std::string>());
    try {
        run(read_trial(values), started_s, events);
    } catch (const std::exception& error) {
        events.emit("failed", {{"error_class", class_of(error)},
                               {"message", error.what()},
                               {"traceback", ""}});
        return 1;
    }
    return 0;
}

}  // namespace

}  // namespace dlsuite

int main(int count, char** arguments) {
    if (count < 2) {
        std::cerr << "usage: worker FOLDER | --version\n";
        return 2;
    }
    if (std::string(arguments[1]) == "--version") {
        std::cout << dlsuite::backend_version() << '\n';
        return 0;
    }
    try {
        return dlsuite::worker(arguments[count - 1]);
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
