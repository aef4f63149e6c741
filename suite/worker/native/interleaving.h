// Interleaving of workers that run at the same time: one computes, the others wait.
#pragma once

#include <exception>
#include <filesystem>
#include <memory>

#include "trial.h"

namespace dlsuite {

// The values of interleaving.py and loop.py, which give the reasons.
constexpr double LEAD_IN_S = 0.015;
constexpr double LONG_STEP_S = 1.0;
constexpr double JITTER = 0.5;

// A file that is locked with flock. The kernel releases the locks of a process that dies.
class LockFile {
  public:
    explicit LockFile(const std::filesystem::path& path);
    ~LockFile();
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;
    void lock(int operation) const;  // LOCK_EX, LOCK_SH or LOCK_UN

  private:
    int file_ = -1;
};

// The turns of an interleaved trial; of a trial that runs alone it does nothing.
class Interleaving {
  public:
    explicit Interleaving(const Trial& trial);
    void begin_turn() const;
    void end_turn() const;
    void wait_for_all() const;  // until all workers have done their work

  private:
    std::unique_ptr<LockFile> queue_, turn_, measuring_;
};

// The turn of a worker, held until the end of the block.
class Turn {
  public:
    explicit Turn(const Interleaving& interleaving) : interleaving_(interleaving) {
        interleaving_.begin_turn();
    }
    ~Turn() {
        try {
            interleaving_.end_turn();
        } catch (const std::exception&) {  // the kernel releases the lock when the process ends
        }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    const Interleaving& interleaving_;
};

}  // namespace dlsuite
