// CUDA's memory and the handles of its libraries.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <string>
#include <vector>

namespace dlsuite {

// Throw std::runtime_error with the library's text where a call failed.
void check(cudaError_t status, const char* call);
void check(cudnnStatus_t status, const char* call);
void check(cublasStatus_t status, const char* call);

// The stream and the handles of a worker.
class Device {
  public:
    // Throw std::runtime_error, which names CUDA, where there is no driver or no GPU.
    Device();
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    std::string name() const;

    cudaStream_t stream = nullptr;
    cudnnHandle_t cudnn = nullptr;
    cublasHandle_t cublas = nullptr;
};

// Float32 values, or bytes of a workspace, on the device.
class Buffer {
  public:
    explicit Buffer(std::size_t size_bytes);
    explicit Buffer(const std::vector<float>& values);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    float* values() const { return static_cast<float*>(memory_); }
    void* bytes() const { return memory_; }

  private:
    void* memory_ = nullptr;
};

using BufferPointer = std::shared_ptr<Buffer>;

}  // namespace dlsuite
