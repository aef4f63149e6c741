#include "queries.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace dlsuite {

namespace {

// Draws a sample of the library.
std::uniform_int_distribution<std::int32_t> any_of(const Library& library) {
    return std::uniform_int_distribution<std::int32_t>(
        0, static_cast<std::int32_t>(library.samples() - 1));
}

// Issue queries of `batch_size` random samples, the next when the one before is answered.
Outcome stream(Library& library, Predictor& predictor, const Request& request, std::uint64_t seed,
               AnswerLog& log, Blocks* blocks) {
    std::mt19937_64 random(seed);
    auto any = any_of(library);
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
    auto any = any_of(library);
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

// Answer queries of one sample that arrive at random times (Poisson), one at a time. A query that
// arrives while another is answered waits, and its latency has the time of waiting.
Outcome server(Library& library, Predictor& predictor, const Request& request, std::uint64_t seed,
               AnswerLog& log) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> gap_s(request.rate_per_s);
    auto any = any_of(library);
    Outcome outcome;
    const double first_s = monotonic_s();
    double arrival_s = first_s, ended_s = first_s;
    while (ended_s - first_s < request.max_s &&
           (outcome.samples < request.min_queries || arrival_s - first_s < request.min_s)) {
        arrival_s += gap_s(random);
        const std::int32_t sample = any(random);
        std::this_thread::sleep_for(std::chrono::duration<double>(arrival_s - monotonic_s()));
        const float* logits = library.answer(predictor, &sample, 1);
        ended_s = monotonic_s();
        outcome.latencies.push_back(ended_s - arrival_s);
        log.draw(&sample, 1, logits);
        ++outcome.samples;
    }
    outcome.duration_s = ended_s - first_s;
    return outcome;
}

}  // namespace

Outcome run_queries(const Trial& trial, Library& library, Predictor& predictor,
                    const Request& request, AnswerLog& log, Blocks* blocks) {
    if (trial.scenario == "offline") return offline(library, predictor, request, trial.seed, log);
    if (trial.scenario == "server") return server(library, predictor, request, trial.seed, log);
    return stream(library, predictor, request, trial.seed, log, blocks);
}

}  // namespace dlsuite
