#include "trainer/data/loader.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/step_phase.h"

namespace ddprun::trainer {

namespace {

// Blocks signals on this thread, because they belong to the thread that runs the loop. Signals of a
// thread's own fault stay unblocked: the kernel would end the process without a message.
void BlockSignals() {
  sigset_t signals;
  ::sigfillset(&signals);
  for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) ::sigdelset(&signals, own);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

int64_t CountBatches(int64_t indices, const LoaderOptions& options) {
  DDPRUN_CHECK(options.batch_size > 0 && options.taken >= 0 && options.taken <= indices);
  const int64_t samples = indices - options.taken;
  const int64_t rest = samples % options.batch_size != 0 && !options.drop_last ? 1 : 0;
  return samples / options.batch_size + rest;
}

Loader::Loader(const Dataset& dataset, std::vector<int64_t> indices, const LoaderOptions& options)
    : dataset_(dataset),
      indices_(std::move(indices)),
      options_(options),
      batches_(options.ranks *
               CountBatches(static_cast<int64_t>(indices_.size()) / options.ranks, options)),
      taken_(options.taken) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<Batch> Loader::Next() {
  const InnerPhase waits(StepPhase::kData);
  const bool threads = options_.prefetch > 0 && !dataset_.in_memory();
  std::optional<Batch> batch = threads ? TakeFromThreads() : MakeNext();
  if (batch && next_ % options_.ranks == 0) {
    taken_ += static_cast<int64_t>(IndicesOf(next_ - 1).size());
  }
  return batch;
}

std::optional<Batch> Loader::MakeNext() {
  if (next_ >= batches_) return std::nullopt;
  const int64_t batch = std::exchange(next_, batches_);
  Batch made = Make(batch);
  next_ = batch + 1;
  return made;
}

std::span<const int64_t> Loader::IndicesOf(int64_t batch) const {
  const size_t share = indices_.size() / options_.ranks;
  const auto begin =
      static_cast<size_t>(options_.taken + batch / options_.ranks * options_.batch_size);
  const size_t count = std::min<size_t>(options_.batch_size, share - begin);
  return std::span(indices_).subspan(batch % options_.ranks * share + begin, count);
}

Batch Loader::Make(int64_t batch) const {
  const std::span<const int64_t> indices = IndicesOf(batch);
  Batch made =
      options_.epoch ? dataset_.GetVaried(indices, *options_.epoch) : dataset_.Get(indices);
  if (!options_.class_weights.empty()) WeighClasses(options_.class_weights, made);
  return made;
}

std::optional<Batch> Loader::TakeFromThreads() {
  std::unique_lock lock(mutex_);
  if (next_ >= batches_) return std::nullopt;
  const int64_t wanted = std::min({options_.threads, options_.prefetch, batches_});
  while (static_cast<int64_t>(threads_.size()) < wanted) {
    threads_.emplace_back([this] { Run(); });
  }
  changed_.wait(lock, [this] { return ready_.contains(next_); });
  PreparedBatch made = std::move(ready_.extract(next_).mapped());
  next_ = made.error ? batches_ : next_ + 1;
  stop_ = made.error != nullptr;
  lock.unlock();
  changed_.notify_all();
  if (made.error) std::rethrow_exception(made.error);
  return std::move(made.batch);
}

void Loader::Run() {
  BlockSignals();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stop_ || next_to_make_ == batches_ || next_to_make_ - next_ < options_.prefetch;
    });
    if (stop_ || next_to_make_ == batches_) return;
    const int64_t batch = next_to_make_++;
    lock.unlock();
    PreparedBatch made;
    try {
      made.batch = Make(batch);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    // Stops making batches, because Next() never returns one after an error.
    if (made.error) next_to_make_ = batches_;
    ready_.emplace(batch, std::move(made));
    changed_.notify_all();
  }
}

}  // namespace ddprun::trainer
