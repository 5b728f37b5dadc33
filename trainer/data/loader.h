// The batches of one epoch, the next ones prepared by a background thread before they are asked
// for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "trainer/data/dataset.h"

namespace ddprun::trainer {

struct LoaderOptions {
  int64_t batch_size = 8;  // samples; the last batch may be smaller
  bool drop_last = false;  // leave that smaller batch out
  // Batches ready ahead of need; 0: no thread, as for a data set that is in memory anyway.
  int64_t prefetch = 2;
};

// One caller's thread. The background thread starts with the first Next(), so a Loader may be
// made before a fork; it ends with the last batch, with the first error, or with the Loader.
class Loader {
 public:
  // `indices` in the order of the visits, e.g. DistributedSampler::Indices(), or their tail where
  // an epoch is taken up again. `dataset` must outlive the Loader. REQUIRES: batch_size > 0.
  Loader(const Dataset& dataset, std::vector<int64_t> indices, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; nullopt after the last one. What the data set threw for this batch is thrown
  // here; after that the Loader is at its end.
  std::optional<Batch> Next();

  // Batches of the whole list.
  int64_t batches() const { return batches_; }

 private:
  Batch Make(int64_t batch) const;
  std::optional<Batch> TakeFromThread();
  void Run();

  const Dataset& dataset_;
  const std::vector<int64_t> indices_;
  const LoaderOptions options_;
  const int64_t batches_;
  int64_t next_ = 0;  // the batch that Next() gives

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;   // guarded by mutex_, as are error_ and stop_
  std::exception_ptr error_;  // of the batch after those in ready_
  bool stop_ = false;
};

}  // namespace ddprun::trainer
