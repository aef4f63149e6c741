#include "npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <regex>

#include "errors.h"

namespace dlsuite {

namespace {

constexpr std::size_t PREFIX = 8;  // the magic string and the version
constexpr std::size_t ALIGNMENT = 64;

void save(const std::filesystem::path& path, const Shape& shape, const void* values,
          const std::string& type, std::size_t item_bytes) {
    std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
    for (auto size : shape) text += std::to_string(size) + ",";
    text += "), }";
    const std::size_t used = PREFIX + 2 + text.size() + 1;
    text += std::string((ALIGNMENT - used % ALIGNMENT) % ALIGNMENT, ' ') + "\n";
    std::ofstream file(path, std::ios::binary);
    const auto length = static_cast<std::uint16_t>(text.size());
    file.write("\x93NUMPY\x01\x00", PREFIX);
    file.put(static_cast<char>(length & 0xFF)).put(static_cast<char>(length >> 8));
    file << text;
    const auto size_bytes = static_cast<std::size_t>(product(shape)) * item_bytes;
    file.write(static_cast<const char*>(values), static_cast<std::streamsize>(size_bytes));
    if (!file.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

}  // namespace

std::int64_t product(const Shape& shape) {
    std::int64_t result = 1;
    for (auto size : shape) result *= size;
    return result;
}

NpyFile::NpyFile(const std::filesystem::path& path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status)) fail("cannot be opened");
    size_bytes_ = static_cast<std::size_t>(status.st_size);
    mapped_ = mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped_ == MAP_FAILED) fail("cannot be mapped");
    const auto* bytes = static_cast<const unsigned char*>(mapped_);
    const bool is_array = size_bytes_ >= PREFIX + 4 && !std::memcmp(bytes, "\x93NUMPY", 6);
    if (!is_array) fail("is no .npy file");
    std::size_t length = bytes[8] + (std::size_t{bytes[9]} << 8);
    start_ = PREFIX + 2;
    if (bytes[6] > 1) {  // the length has four bytes
        length += (std::size_t{bytes[10]} << 16) + (std::size_t{bytes[11]} << 24);
        start_ += 2;
    }
    if (start_ + length > size_bytes_) fail("has a truncated header");
    read_header(std::string(reinterpret_cast<const char*>(bytes + start_), length));
    start_ += length;
}

NpyFile::~NpyFile() { munmap(mapped_, size_bytes_); }

void NpyFile::read_header(const std::string& header) {
    std::smatch type, shape;
    if (!std::regex_search(header, type, std::regex("'descr': *'([^']*)'")) ||
        !std::regex_search(header, shape, std::regex("'shape': *\\(([0-9, ]*)\\)")) ||
        header.find("'fortran_order': False") == std::string::npos) {
        fail("is no array in C order");
    }
    type_ = type[1];
    const std::string sizes = shape[1];
    const std::regex number("[0-9]+");
    for (std::sregex_iterator each(sizes.begin(), sizes.end(), number), end; each != end; ++each) {
        shape_.push_back(std::stoll(each->str()));
    }
}

const void* NpyFile::values(const std::string& type) const {
    if (type_ != type) fail("has the type " + type_ + ", not " + type);
    const auto item_bytes = static_cast<std::size_t>(type.back() - '0');
    if (start_ + static_cast<std::size_t>(product(shape_)) * item_bytes > size_bytes_) {
        fail("is truncated");
    }
    return static_cast<const char*>(mapped_) + start_;
}

void NpyFile::fail(const std::string& what) const {
    throw ValueError(path_.string() + " " + what);
}

void save_npy(const std::filesystem::path& path, const Shape& shape, const float* values) {
    save(path, shape, values, "<f4", sizeof *values);
}

void save_npy(const std::filesystem::path& path, const Shape& shape, const double* values) {
    save(path, shape, values, "<f8", sizeof *values);
}

void save_npy(const std::filesystem::path& path, const Shape& shape, const std::int32_t* values) {
    save(path, shape, values, "<i4", sizeof *values);
}

}  // namespace dlsuite
