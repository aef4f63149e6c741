// Inference: a model answers queries; the worker's own stamps measure them.
#pragma once

#include <functional>

#include "backend.h"
#include "events.h"
#include "interleaving.h"
#include "trial.h"

namespace dlsuite {

// Answer each sample of the query library once, and write results/inference.npy.
void answer_all(const Trial& trial, Predictor& predictor, Events& events);

// Time the queries of the trial's scenario; write some of their answers to results/closing/.
// Interleaved streams of queries pass the turn on after each block.
// `report_memory` is called after warm-up.
void infer(const Trial& trial, Predictor& predictor, Events& events, const Interleaving& turns,
           const std::function<void()>& report_memory);

// Throw NotImplementedError where the worker has no such scenario.
void check_scenario(const Trial& trial);

}  // namespace dlsuite
