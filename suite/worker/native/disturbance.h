// What disturbed a block of steps, by the kernel's counters: suite/worker/disturbance.py in C++,
// which gives the reasons.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trial.h"

namespace dlsuite {

// The kernel's counters at one time, or their increase; empty where they cannot be read.
struct Counters {
    std::optional<double> waited_s, stolen_s;
    std::optional<double> others_s;  // of the worker's CPUs, without the worker's own CPU time
    std::int64_t preemptions = 0, periods = 0, throttled_periods = 0, cooled = 0;
};

Counters operator-(const Counters& after, const Counters& before);

// The field `disturbance` of an event.
Json to_json(const Counters& increase);

// Reads the counters of this process and of its CPUs.
class Meter {
  public:
    explicit Meter(const std::vector<int>& cpus);
    Counters read() const;

  private:
    std::vector<std::string> names_;  // of the CPUs in /proc/stat
    std::vector<std::string> quotas_, heat_;  // files
};

// Decides whether a block is disturbed, by the blocks of this run so far.
class Judge {
  public:
    explicit Judge(std::size_t cpus);
    bool operator()(const Counters& increase, double duration_s);

  private:
    double allowance_s_;
    std::vector<double> waited_;  // the share of each block so far
};

}  // namespace dlsuite
