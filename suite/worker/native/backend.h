// What each library implements: a model in its inference form, and one that is trained.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "trial.h"

namespace dlsuite {

// A model in its inference form: batch norms are folded where a convolution precedes them.
class Predictor {
  public:
    virtual ~Predictor() = default;

    // Compute the logits (batch_size, classes) of inputs (batch_size, ...), both in host memory.
    virtual void predict(const float* inputs, float* logits) = 0;
};

// A model that is trained. Inputs are (batch_size, ...), labels (batch_size), in host memory.
class Trainer {
  public:
    virtual ~Trainer() = default;

    virtual void train_step(const float* inputs, const std::int32_t* labels) = 0;
    virtual void synchronize() = 0;  // return when all submitted work is done
    virtual float loss() = 0;        // the mean loss of the last step, before its update
    virtual void predict(const float* inputs, float* logits) = 0;  // in inference mode

    // The gradients of the mean loss, and the logits in training mode; the weights do not change.
    virtual Tensors gradients(const float* inputs, const std::int32_t* labels, float* logits) = 0;
    virtual Tensors weights() = 0;
    virtual std::map<std::string, Tensors> optimizer_state() = 0;  // by slot
    virtual std::int64_t step_count() = 0;
};

// The library, once for the process. Throw std::runtime_error where the device is missing.
class Backend {
  public:
    virtual ~Backend() = default;
    virtual Json versions() = 0;  // of other software
    virtual Json device(const Trial& trial) = 0;
    virtual Json memory() = 0;  // the fields of the event `memory` on the device
    virtual std::unique_ptr<Predictor> predictor(const Trial& trial, const Tensors& weights,
                                                 const Tensors& statistics) = 0;
    virtual std::unique_ptr<Trainer> trainer(const Trial& trial, const Tensors& weights) = 0;
};

// Each library's folder defines these functions.
std::unique_ptr<Backend> make_backend(const Trial& trial);
std::string backend_version();  // of the library

}  // namespace dlsuite
