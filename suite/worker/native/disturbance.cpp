#include "disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dlsuite {

namespace {

// The values of suite/worker/disturbance.py.
constexpr double WAITED_SHARE = 0.02, WAITED_SPREADS = 4, TAKEN_SHARE = 0.05, TICKS = 2;
constexpr std::size_t USUAL_BLOCKS = 4;
constexpr const char* QUOTAS = "DLSUITE_CPU_STAT";  // files, one a line; native/program.py sets it

double ticks_per_s() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

// How long the present threads have waited for a CPU.
std::optional<double> waited_s() {
    std::optional<double> sum;
    std::error_code error;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
        double ran_ns = 0, waited_ns = 0;
        if (std::ifstream(thread.path() / "schedstat") >> ran_ns >> waited_ns) {
            sum = sum.value_or(0) + waited_ns / 1e9;
        }
    }
    return sum;
}

double own_s() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Add the busy time of the CPUs with these names to others_s, and the stolen time.
void read_processors(const std::vector<std::string>& names, Counters& counters) {
    std::ifstream file("/proc/stat");
    std::string line, name;
    while (std::getline(file, line) && line.rfind("cpu", 0) == 0) {
        std::istringstream fields(line);
        double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
        fields >> name >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal;
        if (std::find(names.begin(), names.end(), name) == names.end()) continue;
        const double busy_s = (user + nice + system + irq + softirq) / ticks_per_s();
        counters.others_s = counters.others_s.value_or(-own_s()) + busy_s;
        counters.stolen_s = counters.stolen_s.value_or(0) + steal / ticks_per_s();
    }
}

// Add the lines `nr_periods N` and `nr_throttled N` of a file.
void read_quota(const std::string& path, Counters& counters) {
    std::ifstream file(path);
    std::string name;
    std::int64_t value = 0;
    while (file >> name >> value) {
        if (name == "nr_periods") counters.periods += value;
        if (name == "nr_throttled") counters.throttled_periods += value;
    }
}

std::optional<double> difference(std::optional<double> after, std::optional<double> before) {
    if (!after || !before) return std::nullopt;
    return *after - *before;
}

// The first, second or third quartile, as statistics.quantiles(n=4) of Python interpolates it.
double quartile(std::vector<double> values, std::size_t which) {
    std::sort(values.begin(), values.end());
    const auto place = which * (values.size() + 1);
    const auto index = std::clamp<std::size_t>(place / 4, 1, values.size() - 1);
    const double part = (static_cast<double>(place) - 4 * static_cast<double>(index)) / 4;
    return values[index - 1] * (1 - part) + values[index] * part;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(); }

}  // namespace

Counters operator-(const Counters& after, const Counters& before) {
    return {difference(after.waited_s, before.waited_s),
            difference(after.stolen_s, before.stolen_s),
            difference(after.others_s, before.others_s),
            after.preemptions - before.preemptions,
            after.periods - before.periods,
            after.throttled_periods - before.throttled_periods,
            after.cooled - before.cooled};
}

Json to_json(const Counters& increase) {
    return {{"waited_s", or_null(increase.waited_s)},
            {"others_s", or_null(increase.others_s)},
            {"stolen_s", or_null(increase.stolen_s)},
            {"preemptions", increase.preemptions},
            {"periods", increase.periods},
            {"throttled_periods", increase.throttled_periods},
            {"cooled", increase.cooled}};
}

Meter::Meter(const std::vector<int>& cpus) {
    for (int cpu : cpus) {
        names_.push_back("cpu" + std::to_string(cpu));
        const std::string heat = "/sys/devices/system/cpu/" + names_.back() +
                                 "/thermal_throttle/core_throttle_count";
        if (std::filesystem::exists(heat)) heat_.push_back(heat);
    }
    const char* files = std::getenv(QUOTAS);
    std::istringstream lines(files ? files : "");
    for (std::string line; std::getline(lines, line);) quotas_.push_back(line);
}

Counters Meter::read() const {
    Counters counters;
    counters.waited_s = waited_s();
    read_processors(names_, counters);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    counters.preemptions = usage.ru_nivcsw;
    for (const auto& path : quotas_) read_quota(path, counters);
    for (const auto& path : heat_) {
        std::int64_t count = 0;
        if (std::ifstream(path) >> count) counters.cooled += count;
    }
    return counters;
}

Judge::Judge(std::size_t cpus) : allowance_s_(TICKS * static_cast<double>(cpus) / ticks_per_s()) {}

bool Judge::operator()(const Counters& increase, double duration_s) {
    const double taken_s = std::max(increase.others_s.value_or(0), increase.stolen_s.value_or(0));
    if (taken_s > TAKEN_SHARE * duration_s + allowance_s_ || increase.cooled > 0) return true;
    if (!increase.waited_s) return false;
    const double share = *increase.waited_s / duration_s;
    waited_.push_back(share);
    if (waited_.size() < USUAL_BLOCKS) return false;
    const double lower = quartile(waited_, 1), usual = quartile(waited_, 2);
    return share - usual > WAITED_SHARE + WAITED_SPREADS * (usual - lower);
}

}  // namespace dlsuite
