#include "events.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace dlsuite {

std::int64_t monotonic_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

double monotonic_s() { return static_cast<double>(monotonic_ns()) / 1e9; }

Events::Events(const std::filesystem::path& results)
    : file_(results / "events.jsonl", std::ios::app), mirror_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

void Events::emit(const std::string& event, const Json& values) {
    Json all = {{"event", event}, {"monotonic_ns", monotonic_ns()}};
    all.update(values);
    const std::string line = all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    // Standard output comes first: it also gets the events for which the disk is full.
    std::size_t written = 0;
    while (written < line.size()) {
        const auto count = write(mirror_, line.data() + written, line.size() - written);
        if (count < 0) throw std::runtime_error("standard output cannot be written");
        written += static_cast<std::size_t>(count);
    }
    if (!(file_ << line).flush()) throw std::runtime_error("events.jsonl cannot be written");
}

}  // namespace dlsuite
