// The training steps that the proofs compare, with their results in files.
#pragma once

#include "backend.h"
#include "events.h"
#include "training.h"

namespace dlsuite {

// Mode parity: do `steps` steps, and write the files of each of them to results/.
void prove_steps(const Trial& trial, Trainer& trainer, Events& events);

// The closing proof: write the state, continue the training, and write the results.
void close(const Trial& trial, Trainer& trainer, Training& training, Events& events);

}  // namespace dlsuite
