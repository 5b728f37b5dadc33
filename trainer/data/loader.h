// The batches of one epoch. Background threads prepare the next ones in advance.
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
  bool drop_last = false;  // leave out a smaller last batch
  // Number of batches prepared in advance, ready or in work. 0: no thread, for data in memory.
  int64_t prefetch = 2;
  int64_t threads = 1;  // that make batches; more than `prefetch` would be idle
  // The epoch of training batches (Dataset::GetVaried). nullopt: Dataset::Get.
  std::optional<int64_t> epoch = {};
  // Number of indices taken in this epoch before the run resumed (DistributedSampler::taken()). The
  // first batch begins after them.
  int64_t taken = 0;
  // Number of logical ranks in `indices`: equal parts, one after the other. Batches alternate
  // between them. `taken` counts one rank's samples.
  int64_t ranks = 1;
  // The weight of a sample of each class in the mean loss (Batch::weights); empty: none.
  std::vector<double> class_weights = {};
};

// Returns the batches of an epoch in which a rank has `indices` samples. Pure.
int64_t CountBatches(int64_t indices, const LoaderOptions& options);

// Only one thread may call it. The first Next() starts the background threads, so that a Loader may
// be made before a fork. They end with the last batch, with the first error, or with the Loader.
//
// Batches do not depend on the number of threads or of prepared batches: they follow from the data
// set, the indices and the epoch alone, so there is no other state to save.
class Loader {
 public:
  // `indices` in the order of the visits, such as DistributedSampler::Indices(). `dataset` must
  // outlive the Loader. REQUIRES: batch_size > 0, 0 <= taken <= indices.size().
  Loader(const Dataset& dataset, std::vector<int64_t> indices, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch; nullopt after the last one. Throws the exception of the data set for
  // this batch; the Loader is then at its end.
  std::optional<Batch> Next();

  // Returns the batches of one rank after options.taken.
  int64_t batches() const { return batches_ / options_.ranks; }
  // Returns options.taken plus one rank's indices in the batches that Next() has returned for every
  // rank. DistributedSampler::state() takes this number. Prepared batches do not count.
  int64_t taken() const { return taken_; }

 private:
  struct PreparedBatch {
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
  // mutex_ guards the members below when there are threads.
  int64_t next_ = 0;                        // the batch that Next() returns next
  int64_t next_to_make_ = 0;                // the batch that the next free thread makes
  std::map<int64_t, PreparedBatch> ready_;  // by batch
  bool stop_ = false;
};

}  // namespace ddprun::trainer
