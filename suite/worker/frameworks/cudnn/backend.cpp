#include "backend.h"

#include "errors.h"
#include "predictor.h"

namespace dlsuite {

namespace {

class Cudnn : public Backend {
  public:
    Json versions() override {
        int runtime = 0, driver = 0;
        check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
        check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
        return {{"cuda_runtime", runtime}, {"cuda_driver", driver}, {"g++", __VERSION__}};
    }

    Json device(const Trial& trial) override {
        cublasMath_t math{};
        check(cublasGetMathMode(device_.cublas, &math), "cublasGetMathMode");
        return {{"name", trial.device},
                {"kind", device_.name()},
                {"threads", nullptr},
                {"tf32", trial.tf32.value_or(true)},
                {"preallocates", false},
                {"policy", {{"cublas_math_mode", static_cast<int>(math)}}}};
    }

    Json memory() override {
        return {{"device_peak_bytes", nullptr}, {"device_reserved_bytes", nullptr}};
    }

    std::unique_ptr<Predictor> predictor(const Trial& trial, const Tensors& weights,
                                         const Tensors& statistics) override {
        return std::make_unique<CudnnPredictor>(device_, trial, weights, statistics);
    }

    std::unique_ptr<Trainer> trainer(const Trial&, const Tensors&) override {
        throw NotImplementedError("the cuDNN worker does not train");
    }

  private:
    Device device_;
};

}  // namespace

std::string backend_version() {
    const auto found = cudnnGetVersion();  // 90100 is 9.1.0
    return std::to_string(found / 10000) + "." + std::to_string(found / 100 % 100) + "." +
           std::to_string(found % 100);
}

std::unique_ptr<Backend> make_backend(const Trial& trial) {
    if (trial.device.rfind("cuda", 0) != 0) {
        throw NotImplementedError("cuDNN needs CUDA and a GPU, the trial's device is " +
                                  trial.device);
    }
    return std::make_unique<Cudnn>();
}

}  // namespace dlsuite
