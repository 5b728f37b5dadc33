// The batches of one epoch, the next ones prepared by background threads before they are asked
// for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct LoaderOptions {
  int64_t batch_size = 8;  // samples; the last batch may be smaller
  bool drop_last = false;  // leave that smaller batch out
  // Batches ready or being made ahead of need; 0: no thread, as for a data set that is in memory
  // anyway.
  int64_t prefetch = 2;
  int64_t threads = 1;  // that make them; more than `prefetch` would have nothing to do
  // The batches of training in this epoch (Dataset::GetVaried); without it Dataset::Get.
  std::optional<int64_t> epoch = {};
  // Indices that were taken before, where an epoch is taken up again (DistributedSampler::taken()):
  // the first batch begins after them.
  int64_t taken = 0;
  // Of so many ranks, whose indices stand one after the other, equally many of each: batches come
  // from each rank in turn. `taken` is that of one.
  int64_t ranks = 1;
};

// Batches of an epoch in which a rank has `indices` samples. Pure.
int64_t CountBatches(int64_t indices, const LoaderOptions& options);

// One caller's thread. The background threads start with the first Next(), so a Loader may be
// made before a fork; they end with the last batch, with the first error, or with the Loader.
// Batches and what is in them are the same for any number of threads and batches ahead, and follow
// from the data set, the indices and the epoch alone: there is no other state to save.
class Loader {
 public:
  // `indices` in the order of the visits, e.g. DistributedSampler::Indices(). `dataset` must
  // outlive the Loader. REQUIRES: batch_size > 0, 0 <= taken <= indices.size().
  Loader(const Dataset& dataset, std::vector<int64_t> indices, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; nullopt after the last one. What the data set threw for this batch is thrown
  // here; after that the Loader is at its end.
  std::optional<Batch> Next();

  // Batches of one rank from options.taken on.
  int64_t batches() const { return batches_ / options_.ranks; }
  // Indices of the batches that Next() has given of every rank, and options.taken: what
  // DistributedSampler::state is asked with to go on here. Batches prepared ahead do not count.
  int64_t taken() const { return taken_; }

 private:
  struct Made {
    Batch batch;
    std::exception_ptr error;
  };

  std::span<const int64_t> IndicesOf(int64_t batch) const;
  Batch Make(int64_t batch) const;
  std::optional<Batch> MakeNext();
  std::optional<Batch> TakeFromThreads();
  void Run();

  const Dataset& dataset_;
  const std::vector<int64_t> indices_;
  const LoaderOptions options_;
  const int64_t batches_;  // of all ranks
  int64_t taken_;

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_ once there are threads.
  int64_t next_ = 0;               // the batch that Next() gives
  int64_t begun_ = 0;              // the batch that the next free thread makes
  std::map<int64_t, Made> ready_;  // by batch
  bool stop_ = false;
};

}  // namespace ddprun::trainer
