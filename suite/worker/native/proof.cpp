#include "proof.h"

#include <cmath>
#include <cstdio>

#include "errors.h"
#include "sketch.h"

namespace dlsuite {

namespace {

// If every second call is faulty, one of two steps shows it. Of long steps, one is done.
constexpr std::int64_t CLOSING_STEPS = 2;

template <typename T>
void save_vector(const std::filesystem::path& path, const std::vector<T>& values) {
    save_npy(path, {static_cast<std::int64_t>(values.size())}, values.data());
}

// Write the results of a step that all proofs compare; no layer of a training has statistics.
void save_outcome(const std::filesystem::path& folder, const std::string& prefix,
                  const Trial& trial, Trainer& trainer, double loss) {
    save_npy(folder / (prefix + "_loss.npy"), {}, &loss);
    save_vector(folder / (prefix + "_weights.npy"), sketches(trial.parameters, trainer.weights()));
    save_vector(folder / (prefix + "_statistics.npy"), std::vector<double>());
}

}  // namespace

void prove_steps(const Trial& trial, Trainer& trainer, Events& events) {
    const Batches batches(trial);
    const auto folder = trial.results();
    const auto shape = trial.logits_shape();
    std::vector<float> logits(static_cast<std::size_t>(product(shape)));
    Batch batch;
    for (std::int64_t step = 0; step < trial.steps; ++step) {
        batches.at(step, batch);
        char prefix[32];
        std::snprintf(prefix, sizeof prefix, "step%02d", static_cast<int>(step));
        const std::string name = prefix;
        trainer.predict(batch.inputs.data(), logits.data());
        save_npy(folder / (name + "_inference.npy"), shape, logits.data());
        const auto gradients =
            trainer.gradients(batch.inputs.data(), batch.labels.data(), logits.data());
        save_npy(folder / (name + "_logits.npy"), shape, logits.data());
        save_vector(folder / (name + "_gradients.npy"), sketches(trial.parameters, gradients));
        trainer.train_step(batch.inputs.data(), batch.labels.data());
        trainer.synchronize();
        const double loss = trainer.loss();
        if (!std::isfinite(loss)) throw ArithmeticError("the loss is not finite");
        save_outcome(folder, name, trial, trainer, loss);
        events.emit("parity", {{"step", step}, {"loss", loss}});
    }
}

void close(const Trial& trial, Trainer& trainer, Training& training, Events& events) {
    const auto folder = trial.results() / "closing";
    std::filesystem::create_directory(folder);
    save_vector(folder / "weights.npy", flat(trial.parameters, trainer.weights()));
    save_vector(folder / "statistics.npy", std::vector<float>());
    for (const auto& [slot, values] : trainer.optimizer_state()) {
        save_vector(folder / ("optimizer_" + slot + ".npy"), flat(trial.parameters, values));
    }
    const auto counted = trainer.step_count(), first = training.step();
    const std::int64_t steps = training.step_s() < LONG_STEP_S ? CLOSING_STEPS : 1;
    training.block(steps);
    const double loss = training.read_loss();
    save_outcome(folder, "after", trial, trainer, loss);
    events.emit("closing", {{"step", first},
                            {"steps", steps},
                            {"optimizer_steps", counted},
                            {"loss", loss}});
}

}  // namespace dlsuite
