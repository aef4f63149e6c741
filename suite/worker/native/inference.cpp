#include "inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "disturbance.h"
#include "errors.h"
#include "latency.h"
#include "library.h"
#include "queries.h"
#include "steady.h"

namespace dlsuite {

namespace {

constexpr double LOGGED_ANSWERS = 1000;  // about so many are compared with the reference
constexpr double OVERHEAD_S = 0.3;
constexpr std::int64_t OVERHEAD_CALLS = 1000;
// The values of suite/worker/inference.py, which gives the reasons.
constexpr int SEARCH_STEPS = 7;
constexpr double SEARCH_S = 2;
constexpr std::int64_t SEARCH_QUERIES = 300;
constexpr int ATTEMPTS = 2;  // of the timed test at each rate: a stall of the machine may spoil one
constexpr double LESS = 0.95;  // the share of the rate that is timed next where one does not hold

// A model that does nothing; its queries cost what the worker itself costs.
class NullPredictor : public Predictor {
  public:
    void predict(const float*, float*) override {}
};

// The request of the timed queries, for a model whose call takes so long.
Request timed(const Trial& trial, double call_s) {
    const double min_s = trial.measure.at("min_query_s"), max_s = trial.measure.at("max_query_s");
    const double least = trial.measure.at("min_queries");
    const auto size = static_cast<double>(trial.batch_size);
    Request request{min_s, max_s, static_cast<std::int64_t>(least)};
    const double queries =
        std::max(1.0, std::min(std::max(least, min_s / call_s), max_s / call_s));
    double samples = queries * size;
    if (trial.scenario == "offline") {
        // One query has all samples, so its size bounds its duration.
        const double rate = size / call_s;
        const double wanted = std::min(std::max(least, rate * min_s), rate * max_s);
        samples = size * std::max(1.0, std::ceil(wanted / size));  // no call is filled
        request.min_queries = static_cast<std::int64_t>(samples);
    } else if (trial.interleaved() && trial.scenario != "server") {
        // The time of waiting must not end the test.
        request = {0, std::numeric_limits<double>::infinity(), static_cast<std::int64_t>(queries)};
    }
    request.log_share = std::min(1.0, LOGGED_ANSWERS / samples);
    return request;
}

// Call the model until the duration of a call is steady; return it, in s.
double warm_up(const Trial& trial, Library& library, Predictor& predictor, Events& events) {
    const double block_s = trial.measure.at("block_s");
    const std::size_t max_blocks = trial.measure.at("max_warmup_blocks");
    std::vector<double> medians;
    std::int64_t calls = 0, next = 0;
    double total_s = 0;
    std::vector<std::int32_t> samples(static_cast<std::size_t>(trial.batch_size));
    bool steady = false;
    while (!steady && medians.size() < max_blocks) {
        std::vector<double> durations;
        double sum_s = 0;
        while (sum_s < block_s) {
            for (auto& sample : samples) {
                sample = static_cast<std::int32_t>(next++ % library.samples());
            }
            const double started_s = monotonic_s();
            library.answer(predictor, samples.data(), trial.batch_size);
            durations.push_back(monotonic_s() - started_s);
            sum_s += durations.back();
            ++calls;
        }
        medians.push_back(median(durations));
        total_s += sum_s;
        steady = is_steady({medians.begin() + 1, medians.end()});  // as in training
    }
    const auto last = std::min<std::ptrdiff_t>(3, medians.end() - medians.begin());
    const double call_s = median({medians.end() - last, medians.end()});
    events.emit("warmed", {{"calls", calls}, {"duration_s", total_s},
                           {"call_s", call_s}, {"steady", steady}});
    return call_s;
}

// Emit what the worker itself costs: the median latency of a query, offline of a call.
void measure_overhead(const Trial& trial, Library& library, Events& events) {
    NullPredictor nothing;
    const bool is_offline = trial.scenario == "offline";
    Trial stream = trial;
    if (!is_offline) stream.scenario = "single_stream";  // also of a server, one query at a time
    const auto calls = is_offline ? OVERHEAD_CALLS * trial.batch_size : OVERHEAD_CALLS;
    AnswerLog log(library, 0, trial.seed);
    const auto outcome = run_queries(stream, library, nothing, {0, OVERHEAD_S, calls}, log);
    const double latency_s =
        is_offline ? outcome.duration_s / OVERHEAD_CALLS : median(outcome.latencies);
    events.emit("overhead", {{"latency_s", latency_s}});
}

// Whether 99 % of the queries were within the bound; an event reports the test.
bool holds_bound(const Trial& trial, double rate_per_s, const Outcome& outcome, Events& events) {
    const auto statistics = latency_statistics(outcome.latencies);
    const double p99_s = statistics.at("percentiles_s").at("99");
    const bool within = p99_s <= trial.latency_bound_s;
    events.emit("rate", {{"rate_per_s", rate_per_s}, {"p99_s", p99_s}, {"holds", within}});
    return within;
}

// The highest rate of queries per second that holds in short tests, by bisection, and a rate above
// it that was not tried or failed. The first is the second one where no rate holds.
std::pair<double, double> bisected_rate(const Trial& trial, Library& library, Predictor& predictor,
                                        double call_s, Events& events) {
    const auto held = [&](double rate_per_s) {
        Request step{SEARCH_S, 5 * SEARCH_S, SEARCH_QUERIES};
        step.rate_per_s = rate_per_s;
        AnswerLog log(library, 0, trial.seed);
        const auto outcome = run_queries(trial, library, predictor, step, log);
        return holds_bound(trial, rate_per_s, outcome, events);
    };
    const auto holds = [&](double rate_per_s) { return held(rate_per_s) || held(rate_per_s); };
    const double highest = 1 / call_s;
    double low = 0, high = highest;
    const auto bisect = [&] {
        for (int number = 0; number < SEARCH_STEPS; ++number) {
            const double middle = (low + high) / 2;
            (holds(middle) ? low : high) = middle;
        }
    };
    bisect();
    if (high == highest) {  // every rate holds: the warm-up was disturbed, and calls are faster
        high = 2 * highest;
        bisect();
    }
    return {low > 0 ? low : high, high};
}

Json report(const Trial& trial, const Request& request, const Outcome& outcome) {
    const auto samples = static_cast<double>(outcome.samples);
    const bool is_server = trial.scenario == "server";
    const double busy_s =
        is_server ? outcome.duration_s
                  : std::accumulate(outcome.latencies.begin(), outcome.latencies.end(), 0.0);
    Json values = {
        {"scenario", trial.scenario},
        {"loadgen", "own timestamps"},
        {"queries", outcome.latencies.size()},
        {"samples", outcome.samples},
        {"duration_s", outcome.duration_s},
        {"samples_per_s", samples / busy_s},
        {"rate_per_s", is_server ? Json(request.rate_per_s) : Json()},
    };
    if (trial.scenario == "offline") {  // the latency of its only query has no percentiles
        values.update({{"mean_s", nullptr}, {"min_s", nullptr}, {"max_s", nullptr},
                       {"percentiles_s", Json::object()}, {"early_stopping_s", Json::object()}});
    } else {
        values.update(latency_statistics(outcome.latencies));
        // LoadGen makes these estimates only for queries that do not wait for each other.
        if (is_server) values["early_stopping_s"] = Json::object();
        if (trial.scenario == "multi_stream") values["early_stopping_s"].erase("90");
    }
    return values;
}

}  // namespace

void check_scenario(const Trial& trial) {
    const auto& scenario = trial.scenario;
    const auto known = {"single_stream", "multi_stream", "offline", "server"};
    if (std::find(known.begin(), known.end(), scenario) == known.end()) {
        throw NotImplementedError("the worker has no scenario " + scenario);
    }
}

void answer_all(const Trial& trial, Predictor& predictor, Events& events) {
    Library library(trial);
    const auto size = trial.batch_size, classes = trial.classes;
    std::vector<float> answers;
    std::vector<std::int32_t> query(static_cast<std::size_t>(library.samples()));
    std::iota(query.begin(), query.end(), 0);
    for (std::int64_t first = 0; first < library.samples(); first += size) {
        const auto count = std::min(size, library.samples() - first);
        const float* logits = library.answer(predictor, query.data() + first, count);
        answers.insert(answers.end(), logits, logits + count * classes);
    }
    save_npy(trial.results() / "inference.npy", {library.samples(), classes}, answers.data());
    events.emit("answered", {{"samples", library.samples()}});
}

void infer(const Trial& trial, Predictor& predictor, Events& events, const Interleaving& turns,
           const std::function<void()>& report_memory) {
    Library library(trial);
    const std::int32_t sample = 0;
    const double started_s = monotonic_s();
    library.answer(predictor, &sample, 1);
    events.emit("first_inference", {{"duration_s", monotonic_s() - started_s}});
    const double call_s = warm_up(trial, library, predictor, events);
    report_memory();  // later, the process also has the latencies of all queries
    measure_overhead(trial, library, events);
    auto request = timed(trial, call_s);
    const bool is_server = trial.scenario == "server";
    double highest = 0;
    if (is_server) {
        std::tie(request.rate_per_s, highest) =
            bisected_rate(trial, library, predictor, call_s, events);
    }
    const Meter meter(trial.cpus);
    Blocks blocks(turns, trial, call_s);
    for (int attempt = 1;; ++attempt) {
        AnswerLog log(library, request.log_share, trial.seed + 1);
        const auto before = meter.read();
        const auto outcome =
            run_queries(trial, library, predictor, request, log,
                        trial.interleaved() ? &blocks : nullptr);
        const auto increase = meter.read() - before;
        if (is_server && !holds_bound(trial, request.rate_per_s, outcome, events)) {
            if (attempt % ATTEMPTS != 0) continue;
            if (request.rate_per_s > highest / 2) {
                request.rate_per_s *= LESS;
                continue;
            }
        }
        auto values = report(trial, request, outcome);
        values["disturbance"] = to_json(increase);
        events.emit("inference", values);
        events.emit("answers", {{"samples", log.save(trial.results() / "closing")}});
        return;
    }
}

}  // namespace dlsuite
