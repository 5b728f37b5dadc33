#include "trainer/parallel/bucket_flights.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

#include "trainer/parallel/gradient_errors.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

void BucketFlights::Launch(GradientBuckets& buckets, size_t index, bool in_background) {
  GradientBucket& bucket = buckets.buckets()[index].gradients;
  Flight& flight = flights_[index];
  if (hook_ != nullptr) {
    CallHook(buckets, index, [&] { flight.finish = hook_->Start(bucket, *group_); });
    return;
  }
  flight.work = BeginAllReduce(*group_, bucket.flat, c10d::ReduceOp::AVG, in_background);
}

bool BucketFlights::IsCompleted(size_t index) const {
  const auto& work = flights_[index].work;
  return work == nullptr || work->isCompleted();
}

void BucketFlights::Wait(const GradientBuckets& buckets, size_t index) {
  const Flight flight = std::exchange(flights_[index], Flight());
  if (flight.finish) return CallHook(buckets, index, flight.finish);
  if (flight.work != nullptr) flight.work->wait();
}

// Calls a user's hook, and adds the place to any exception that it throws.
void BucketFlights::CallHook(const GradientBuckets& buckets,
                             size_t index,
                             const std::function<void()>& call) const {
  try {
    call();
  } catch (const Failure&) {
    throw;
  } catch (const c10::Error& error) {
    throw HookFailed(where_(), index, buckets.Names()[index], error.what_without_backtrace());
  } catch (const std::exception& exception) {
    throw HookFailed(where_(), index, buckets.Names()[index], exception.what());
  }
}

}  // namespace ddprun::trainer
