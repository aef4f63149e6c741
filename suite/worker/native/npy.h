// Files of the format .npy: mapped for reading, and written in C order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dlsuite {

using Shape = std::vector<std::int64_t>;

// The number of values of a tensor.
std::int64_t product(const Shape& shape);

// An array in a file, mapped into memory. Throw ValueError where the file is no array in C order.
class NpyFile {
  public:
    explicit NpyFile(const std::filesystem::path& path);
    ~NpyFile();
    NpyFile(const NpyFile&) = delete;
    NpyFile& operator=(const NpyFile&) = delete;

    const Shape& shape() const { return shape_; }
    const std::string& type() const { return type_; }  // in NumPy's form: <f4, <i4, |u1

    // The values. Throw ValueError where `type` is not the type of the file.
    const float* floats() const { return static_cast<const float*>(values("<f4")); }
    const std::int32_t* integers() const { return static_cast<const std::int32_t*>(values("<i4")); }
    const std::uint8_t* bytes() const { return static_cast<const std::uint8_t*>(values("|u1")); }

  private:
    const void* values(const std::string& type) const;
    void read_header(const std::string& header);
    [[noreturn]] void fail(const std::string& what) const;

    std::filesystem::path path_;
    void* mapped_ = nullptr;
    std::size_t size_bytes_ = 0;
    std::size_t start_ = 0;  // of the values
    Shape shape_;
    std::string type_;
};

// Write an array in C order.
void save_npy(const std::filesystem::path& path, const Shape& shape, const float* values);
void save_npy(const std::filesystem::path& path, const Shape& shape, const double* values);
void save_npy(const std::filesystem::path& path, const Shape& shape, const std::int32_t* values);

}  // namespace dlsuite
