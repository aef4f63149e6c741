// The errors of a worker; the event `failed` has their class.
#pragma once

#include <stdexcept>
#include <string>

namespace dlsuite {

// The worker cannot do what the trial asks for.
class NotImplementedError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A file or a field has a value that the protocol does not allow.
class ValueError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The training diverged.
class ArithmeticError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace dlsuite
