// Prints what latency.h computes: for a number of queries and a percentile, the queries beyond its
// estimate; for latencies on standard input, their statistics.

#include "latency.h"

#include <cstdlib>
#include <iostream>
#include <iterator>

int main(int count, char** arguments) {
    if (count == 3) {
        std::cout << dlsuite::early_stopping_queries(std::atoll(arguments[1]),
                                                     std::atof(arguments[2]));
        return 0;
    }
    const std::vector<double> latencies{std::istream_iterator<double>(std::cin), {}};
    std::cout << dlsuite::latency_statistics(latencies).dump();
}
