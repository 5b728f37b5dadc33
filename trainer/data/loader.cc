#include "trainer/data/loader.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

int64_t CountBatches(int64_t samples, const LoaderOptions& options) {
  DDPRUN_CHECK(options.batch_size > 0);
  const int64_t rest = samples % options.batch_size != 0 && !options.drop_last ? 1 : 0;
  return samples / options.batch_size + rest;
}

// Signals belong to the thread that runs the loop.
void BlockSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Loader::Loader(const Dataset& dataset, std::vector<int64_t> indices, const LoaderOptions& options)
    : dataset_(dataset),
      indices_(std::move(indices)),
      options_(options),
      batches_(CountBatches(static_cast<int64_t>(indices_.size()), options)) {}

Loader::~Loader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<Batch> Loader::Next() {
  if (next_ >= batches_) return std::nullopt;
  if (options_.prefetch <= 0 || dataset_.in_memory()) {
    const int64_t batch = std::exchange(next_, batches_);
    Batch made = Make(batch);
    next_ = batch + 1;
    return made;
  }
  return TakeFromThread();
}

Batch Loader::Make(int64_t batch) const {
  const auto begin = static_cast<size_t>(batch * options_.batch_size);
  const size_t count = std::min<size_t>(options_.batch_size, indices_.size() - begin);
  return dataset_.Get(std::span(indices_).subspan(begin, count));
}

std::optional<Batch> Loader::TakeFromThread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_ != nullptr; });
  if (ready_.empty()) {
    next_ = batches_;
    std::rethrow_exception(error_);
  }
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++next_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::Run() {
  BlockSignals();
  for (int64_t i = 0; i < batches_; ++i) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return stop_ || static_cast<int64_t>(ready_.size()) < options_.prefetch;
      });
      if (stop_) return;
    }
    Batch batch;
    std::exception_ptr error;
    try {
      batch = Make(i);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      if (!error) ready_.push_back(std::move(batch));
    }
    changed_.notify_all();
    if (error) return;
  }
}

}  // namespace ddprun::trainer
