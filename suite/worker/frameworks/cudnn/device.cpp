#include "device.h"

#include <stdexcept>

namespace dlsuite {

namespace {

[[noreturn]] void fail(const char* call, const std::string& reason) {
    throw std::runtime_error(std::string(call) + ": " + reason);
}

}  // namespace

void check(cudaError_t status, const char* call) {
    if (status != cudaSuccess) fail(call, std::string("CUDA: ") + cudaGetErrorString(status));
}

void check(cudnnStatus_t status, const char* call) {
    if (status != CUDNN_STATUS_SUCCESS) fail(call, cudnnGetErrorString(status));
}

void check(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS) fail(call, cublasGetStatusString(status));
}

Device::Device() {
    int count = 0;
    const auto status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) {
        throw std::runtime_error("the CUDA driver is missing or older than CUDA's runtime");
    }
    check(status, "cudaGetDeviceCount");
    if (count == 0) throw std::runtime_error("CUDA finds no GPU");
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudnnCreate(&cudnn), "cudnnCreate");
    check(cudnnSetStream(cudnn, stream), "cudnnSetStream");
    check(cublasCreate(&cublas), "cublasCreate");
    check(cublasSetStream(cublas, stream), "cublasSetStream");
}

Device::~Device() {
    if (cublas) cublasDestroy(cublas);
    if (cudnn) cudnnDestroy(cudnn);
    if (stream) cudaStreamDestroy(stream);
}

std::string Device::name() const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    return properties.name;
}

Buffer::Buffer(std::size_t size_bytes) {
    if (size_bytes) check(cudaMalloc(&memory_, size_bytes), "cudaMalloc");
}

Buffer::Buffer(const std::vector<float>& values) : Buffer(values.size() * sizeof(float)) {
    const auto size_bytes = values.size() * sizeof(float);
    check(cudaMemcpy(memory_, values.data(), size_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

Buffer::~Buffer() { cudaFree(memory_); }

}  // namespace dlsuite
