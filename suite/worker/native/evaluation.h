// Loss and accuracy on the test split, and on as many of the first training samples.
#pragma once

#include "backend.h"
#include "data.h"

namespace dlsuite {

// The fields of the event `epoch` that describe the model.
Json evaluate(const Trial& trial, Trainer& trainer, const Split& train);

}  // namespace dlsuite
