// Events: lines of JSON on standard output and in results/events.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "trial.h"

namespace dlsuite {

// The machine's monotonic clock, in ns and in s.
std::int64_t monotonic_ns();
double monotonic_s();

// Appends events to the file and writes them to standard output. From its construction on, what
// libraries print to standard output goes to standard error.
class Events {
  public:
    explicit Events(const std::filesystem::path& results);

    // Write one event at once; throw std::runtime_error where it cannot be written.
    void emit(const std::string& event, const Json& values = Json::object());

  private:
    std::ofstream file_;
    int mirror_;
};

}  // namespace dlsuite
