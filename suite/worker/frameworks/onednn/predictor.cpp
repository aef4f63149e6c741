#include "predictor.h"

#include <cstring>

#include "errors.h"
#include "lowering.h"

namespace dlsuite {

OneDnnPredictor::OneDnnPredictor(const dnnl::engine& engine, const Trial& trial,
                                 const Tensors& weights, const Tensors& statistics)
    : graph_(engine, dnnl::stream(engine)),
      size_bytes_(static_cast<std::size_t>(product(trial.logits_shape())) * sizeof(float)) {
    Lowering lowering(graph_, weights, statistics);
    const Value input{graph_.input(trial.batch_shape()), true};
    const Value result = lowering.rows(lowering.series(trial.layers, input));
    if (result.dims() != trial.logits_shape()) {
        throw ValueError("the model has another number of outputs than classes");
    }
    logits_ = result.memory;
}

void OneDnnPredictor::predict(const float* inputs, float* logits) {
    graph_.set_input(inputs);
    graph_.run();
    std::memcpy(logits, logits_.get_data_handle(), size_bytes_);
}

}  // namespace dlsuite
