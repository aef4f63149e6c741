// Inference: a model answers queries; the worker's own stamps measure them.
#pragma once

#include "backend.h"
#include "events.h"
#include "interleaving.h"
#include "trial.h"

namespace dlsuite {

// Answer each sample of the query library once, and write results/inference.npy.
void answer_all(const Trial& trial, Predictor& predictor, Events& events);

// Time the queries of the trial's scenario; write some of their answers to results/closing/.
// Interleaved streams of queries pass the turn on after each block.
void infer(const Trial& trial, Predictor& predictor, Events& events, const Interleaving& turns);

// Throw NotImplementedError where the worker has no such scenario.
void check_scenario(const Trial& trial);

}  // namespace dlsuite
