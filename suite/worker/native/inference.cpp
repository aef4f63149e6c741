#include "inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "errors.h"
#include "latency.h"
#include "library.h"
#include "steady.h"

namespace dlsuite {

namespace {

constexpr double LOGGED_ANSWERS = 1000;  // about so many are compared with the reference
constexpr double OVERHEAD_S = 0.3;
constexpr std::int64_t OVERHEAD_CALLS = 1000;

// A model that does nothing; its queries cost what the worker itself costs.
class NullPredictor : public Predictor {
  public:
    void predict(const float*, float*) override {}
};

// How many queries, and for how long.
struct Request {
    double min_s, max_s;
    std::int64_t min_queries;  // of samples in scenario offline
    double log_share;
};

struct Outcome {
    std::vector<double> latencies;  // in s, of each query
    std::int64_t samples = 0;
    double duration_s = 0;
};

// The blocks of queries of an interleaved worker, which passes its turn on after each of them.
class Blocks {
  public:
    Blocks(const Interleaving& turns, const Trial& trial, double call_s)
        : turns_(turns),
          block_s_(trial.measure.at("interleaved_block_s")),
          lead_in_s_(call_s < LONG_STEP_S ? LEAD_IN_S : 0),
          random_(std::random_device()()) {
        start();
    }

    // To be called after each query; a turn begins with untimed calls.
    template <typename Call>
    void after_query(Call call) {
        if (monotonic_s() < end_s_) return;
        turns_.end_turn();
        turns_.begin_turn();
        const double started_s = monotonic_s();
        while (monotonic_s() < started_s + lead_in_s_) call();
        start();
    }

  private:
    void start() {
        std::uniform_real_distribution<double> share(1 - JITTER, 1 + JITTER);
        end_s_ = monotonic_s() + block_s_ * share(random_);
    }

    const Interleaving& turns_;
    double block_s_, lead_in_s_, end_s_ = 0;
    std::mt19937_64 random_;
};

// Issue queries of `batch_size` random samples, the next when the one before is answered.
Outcome stream(Library& library, Predictor& predictor, const Request& request, std::uint64_t seed,
               AnswerLog& log, Blocks* blocks) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::int32_t> any(
        0, static_cast<std::int32_t>(library.samples() - 1));
    const auto size = library.batch_size();
    std::vector<std::int32_t> query(static_cast<std::size_t>(size));
    Outcome outcome;
    outcome.latencies.reserve(1 << 20);
    const auto first_ns = monotonic_ns();
    std::int64_t queries = 0, ended_ns = first_ns;
    while (static_cast<double>(ended_ns - first_ns) < 1e9 * request.max_s &&
           (queries < request.min_queries ||
            static_cast<double>(ended_ns - first_ns) < 1e9 * request.min_s)) {
        for (auto& sample : query) sample = any(random);
        const auto started_ns = monotonic_ns();
        const float* logits = library.answer(predictor, query.data(), size);
        ended_ns = monotonic_ns();
        outcome.latencies.push_back(static_cast<double>(ended_ns - started_ns) / 1e9);
        log.draw(query.data(), size, logits);  // after the stamp: the caller has its answer
        ++queries;
        if (blocks) {
            blocks->after_query([&] { library.answer(predictor, query.data(), size); });
        }
    }
    outcome.samples = queries * size;
    outcome.duration_s = static_cast<double>(ended_ns - first_ns) / 1e9;
    return outcome;
}

// Answer one query of `min_queries` random samples by calls of `batch_size` samples.
Outcome offline(Library& library, Predictor& predictor, const Request& request, std::uint64_t seed,
                AnswerLog& log) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::int32_t> any(
        0, static_cast<std::int32_t>(library.samples() - 1));
    std::vector<std::int32_t> query(static_cast<std::size_t>(request.min_queries));
    for (auto& sample : query) sample = any(random);
    const auto started_ns = monotonic_ns();
    for (std::int64_t first = 0; first < request.min_queries; first += library.batch_size()) {
        const auto count = std::min(library.batch_size(), request.min_queries - first);
        const float* logits = library.answer(predictor, query.data() + first, count);
        log.draw(query.data() + first, count, logits);
    }
    Outcome outcome;
    outcome.samples = request.min_queries;
    outcome.duration_s = static_cast<double>(monotonic_ns() - started_ns) / 1e9;
    outcome.latencies = {outcome.duration_s};
    return outcome;
}

Outcome run(const Trial& trial, Library& library, Predictor& predictor, const Request& request,
            AnswerLog& log, Blocks* blocks = nullptr) {
    if (trial.scenario == "offline") return offline(library, predictor, request, trial.seed, log);
    return stream(library, predictor, request, trial.seed, log, blocks);
}

// The request of the timed queries, for a model whose call takes so long.
Request timed(const Trial& trial, double call_s) {
    const double min_s = trial.measure.at("min_query_s"), max_s = trial.measure.at("max_query_s");
    const double least = trial.measure.at("min_queries");
    const auto size = static_cast<double>(trial.batch_size);
    Request request{min_s, max_s, static_cast<std::int64_t>(least), 0};
    const double queries =
        std::max(1.0, std::min(std::max(least, min_s / call_s), max_s / call_s));
    double samples = queries * size;
    if (trial.scenario == "offline") {
        // One query has all samples, so its size bounds its duration.
        const double rate = size / call_s;
        samples = std::max(size, std::min(std::max(least, rate * min_s), rate * max_s));
        request.min_queries = static_cast<std::int64_t>(samples);
    } else if (trial.interleaved()) {  // the time of waiting must not end the test
        request = {0, std::numeric_limits<double>::infinity(),
                   static_cast<std::int64_t>(queries), 0};
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
        steady = is_steady(medians);
    }
    events.emit("warmed", {{"calls", calls}, {"duration_s", total_s},
                           {"call_s", medians.back()}, {"steady", steady}});
    return medians.back();
}

// Emit what the worker itself costs: the median latency of a query, offline of a call.
void measure_overhead(const Trial& trial, Library& library, Events& events) {
    NullPredictor nothing;
    const bool is_offline = trial.scenario == "offline";
    const auto calls = is_offline ? OVERHEAD_CALLS * trial.batch_size : OVERHEAD_CALLS;
    AnswerLog log(library, 0, trial.seed);
    const auto outcome = run(trial, library, nothing, {0, OVERHEAD_S, calls, 0}, log);
    const double latency_s =
        is_offline ? outcome.duration_s / OVERHEAD_CALLS : median(outcome.latencies);
    events.emit("overhead", {{"latency_s", latency_s}});
}

Json report(const Trial& trial, const Outcome& outcome) {
    const auto samples = static_cast<double>(outcome.samples);
    const double busy_s =
        std::accumulate(outcome.latencies.begin(), outcome.latencies.end(), 0.0);
    Json values = {
        {"scenario", trial.scenario},
        {"loadgen", "own stamps"},
        {"queries", outcome.latencies.size()},
        {"samples", outcome.samples},
        {"duration_s", outcome.duration_s},
        {"samples_per_s", samples / busy_s},
        {"rate_per_s", nullptr},
    };
    if (trial.scenario == "offline") {  // the latency of its only query has no percentiles
        values.update({{"mean_s", nullptr}, {"min_s", nullptr}, {"max_s", nullptr},
                       {"percentiles_s", Json::object()}, {"early_stopping_s", Json::object()}});
    } else {
        values.update(latency_statistics(outcome.latencies));
    }
    return values;
}

}  // namespace

void check_scenario(const Trial& trial) {
    const auto& scenario = trial.scenario;
    if (scenario != "single_stream" && scenario != "multi_stream" && scenario != "offline") {
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

void infer(const Trial& trial, Predictor& predictor, Events& events, const Interleaving& turns) {
    Library library(trial);
    const std::int32_t sample = 0;
    const double started_s = monotonic_s();
    library.answer(predictor, &sample, 1);
    events.emit("first_inference", {{"duration_s", monotonic_s() - started_s}});
    const double call_s = warm_up(trial, library, predictor, events);
    measure_overhead(trial, library, events);
    const auto request = timed(trial, call_s);
    AnswerLog log(library, request.log_share, trial.seed + 1);
    Blocks blocks(turns, trial, call_s);
    const auto outcome =
        run(trial, library, predictor, request, log, trial.interleaved() ? &blocks : nullptr);
    events.emit("inference", report(trial, outcome));
    events.emit("answers", {{"samples", log.save(trial.results() / "closing")}});
}

}  // namespace dlsuite
