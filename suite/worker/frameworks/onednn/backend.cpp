#include "backend.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "errors.h"
#include "predictor.h"
#include "trainer.h"

namespace dlsuite {

namespace {

const char* instruction_set() {
    switch (dnnl::get_effective_cpu_isa()) {
        case dnnl::cpu_isa::sse41: return "sse41";
        case dnnl::cpu_isa::avx: return "avx";
        case dnnl::cpu_isa::avx2: return "avx2";
        case dnnl::cpu_isa::avx512_core: return "avx512_core";
        case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
        case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
        case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
        default: return "other";
    }
}

class OneDnn : public Backend {
  public:
    explicit OneDnn(const Trial& trial) {
        if (trial.device != "cpu") throw std::runtime_error("oneDNN has no CUDA here, use a CPU");
        const auto cpus = static_cast<int>(trial.cpus.size());
        omp_set_num_threads(trial.threads ? trial.threads : cpus);
        engine_ = dnnl::engine(dnnl::engine::kind::cpu, 0);
    }

    Json versions() override { return {{"g++", __VERSION__}}; }

    Json device(const Trial& trial) override {
        return {{"name", trial.device},
                {"kind", "cpu"},
                {"threads", omp_get_max_threads()},
                {"tf32", nullptr},
                {"preallocates", false},
                {"policy", {{"cpu_isa", instruction_set()}}}};
    }

    Json memory() override {
        return {{"device_peak_bytes", nullptr}, {"device_reserved_bytes", nullptr}};
    }

    std::unique_ptr<Predictor> predictor(const Trial& trial, const Tensors& weights,
                                         const Tensors& statistics) override {
        return std::make_unique<OneDnnPredictor>(engine_, trial, weights, statistics);
    }

    std::unique_ptr<Trainer> trainer(const Trial& trial, const Tensors& weights) override {
        return std::make_unique<OneDnnTrainer>(engine_, trial, weights);
    }

  private:
    dnnl::engine engine_;
};

}  // namespace

std::string backend_version() {
    const auto* found = dnnl_version();
    return std::to_string(found->major) + "." + std::to_string(found->minor) + "." +
           std::to_string(found->patch);
}

std::unique_ptr<Backend> make_backend(const Trial& trial) {
    return std::make_unique<OneDnn>(trial);
}

}  // namespace dlsuite
