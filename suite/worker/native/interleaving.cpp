#include "interleaving.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <memory>

#include "errors.h"

namespace dlsuite {

LockFile::LockFile(const std::filesystem::path& path)
    : file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {  // NFS locks only what may be written
    if (file_ < 0) file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw ValueError(path.string() + " cannot be opened");
}

LockFile::~LockFile() { close(file_); }

void LockFile::lock(int operation) const {
    if (flock(file_, operation)) throw std::runtime_error("flock failed");
}

Interleaving::Interleaving(const Trial& trial) {
    if (!trial.interleaved()) return;
    const auto& folder = trial.paths.at("interleaving");
    queue_ = std::make_unique<LockFile>(folder / "queue");
    turn_ = std::make_unique<LockFile>(folder / "turn");
    measuring_ = std::make_unique<LockFile>(folder / "measuring");
    measuring_->lock(LOCK_SH);
}

void Interleaving::begin_turn() const {
    if (!queue_) return;
    // The worker that waits for the turn holds the queue, so none that comes later overtakes it.
    queue_->lock(LOCK_EX);
    turn_->lock(LOCK_EX);
    queue_->lock(LOCK_UN);
}

void Interleaving::end_turn() const {
    if (turn_) turn_->lock(LOCK_UN);
}

void Interleaving::wait_for_all() const {
    if (measuring_) measuring_->lock(LOCK_EX);  // releases the shared lock first
}

}  // namespace dlsuite
