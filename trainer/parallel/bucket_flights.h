// The reductions of buckets that run at the same time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/gradient_buckets.h"

namespace ddprun::trainer {

// Each bucket is averaged by an all-reduce, or by a comm hook. One thread at a time.
class BucketFlights {
 public:
  // `hook` may be nullptr. `where` returns rank and step, for errors of the hook.
  BucketFlights(c10::intrusive_ptr<c10d::Backend> group,
                std::shared_ptr<CommHook> hook,
                std::function<std::string()> where)
      : group_(std::move(group)), hook_(std::move(hook)), where_(std::move(where)) {}

  // Forgets the reductions of an earlier backward.
  void Reset(size_t buckets) { flights_.assign(buckets, Flight()); }
  // Begins to average bucket `index`. If the caller waits at once, `in_background` should be false.
  // Throws Failure, as Wait() does.
  void Launch(GradientBuckets& buckets, size_t index, bool in_background);
  // Returns whether Wait() returns at once.
  bool IsCompleted(size_t index) const;
  void Wait(const GradientBuckets& buckets, size_t index);

  size_t size() const { return flights_.size(); }

 private:
  // Has one of the two, or none if it is in the order of the current stream.
  struct Flight {
    c10::intrusive_ptr<c10d::Work> work = {};
    std::function<void()> finish = {};
  };
  void CallHook(const GradientBuckets& buckets,
                size_t index,
                const std::function<void()>& call) const;

  const c10::intrusive_ptr<c10d::Backend> group_;
  const std::shared_ptr<CommHook> hook_;
  const std::function<std::string()> where_;
  std::vector<Flight> flights_;
};

}  // namespace ddprun::trainer
