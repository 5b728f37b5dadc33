#include "trainer/parallel/bucket_layout.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/compute/device.h"

namespace ddprun::trainer {

BucketLayout::BucketLayout(size_t parameters, const ReducerOptions& options, const Mesh& mesh)
    : limits_(options.limits),
      tunes_(options.tune_limits),
      keeps_order_(options.keep_order),
      control_(mesh.control),
      device_(mesh.device),
      order_(parameters) {
  std::iota(order_.rbegin(), order_.rend(), size_t{0});
}

void BucketLayout::BeginBackward(bool synchronize) {
  if (state_ == State::kRecording) arrival_order_.clear();
  if (synchronize) begun_at_ = Now();
}

void BucketLayout::NoteGradient(size_t parameter) {
  if (state_ == State::kRecording) arrival_order_.push_back(parameter);
}

void BucketLayout::EndBackward() {
  if (state_ == State::kRecording) state_ = State::kDue;
}

void BucketLayout::EndAverages() {
  seconds_ = std::chrono::duration<double>(Now() - begun_at_).count();
}

std::chrono::steady_clock::time_point BucketLayout::Now() const {
  if (search_ && tuning() == nullptr) WaitForDevice(device_);
  return std::chrono::steady_clock::now();
}

bool BucketLayout::Update(const GradientBuckets& buckets) {
  if (state_ == State::kDone) {
    if (!search_ || tuning() != nullptr || !seconds_) return false;
    return search_->Add(*std::exchange(seconds_, {}), control_.get());
  }
  if (state_ == State::kRecording) return false;
  if (!keeps_order_) order_ = OrderOf(0, OrderOfArrival(arrival_order_, order_.size()));
  Settle(buckets);
  return !keeps_order_ || tunes_;
}

bool BucketLayout::Rejoin(int giver, const GradientBuckets& buckets) {
  // A rank is replaced only after the first synchronised backward, so each old rank knows an order.
  const bool known = state_ == State::kDone;
  const std::vector<size_t> own = known ? order_ : OrderOfArrival(arrival_order_, order_.size());
  const std::vector<size_t> order = OrderOf(giver, own);
  // Correct buckets keep their memory, because new pages cost time.
  const bool stays = known && order == order_ && !tunes_;
  order_ = order;
  Settle(buckets);
  return !stays;
}

// The order is final. Begins to search for the sizes, if this is wanted.
void BucketLayout::Settle(const GradientBuckets& buckets) {
  state_ = State::kDone;
  seconds_.reset();
  if (tunes_) search_.emplace(TrialsOf(buckets, order_));
}

// Returns the order that rank `rank` passes as `own`. A collective.
std::vector<size_t> BucketLayout::OrderOf(int rank, const std::vector<size_t>& own) const {
  const int64_t count = static_cast<int64_t>(order_.size());
  at::Tensor order = at::empty({count}, at::kLong);
  int64_t* data = order.mutable_data_ptr<int64_t>();
  std::ranges::copy(own, data);
  std::vector<at::Tensor> tensors = {order};
  c10d::BroadcastOptions options;
  options.rootRank = rank;
  control_->broadcast(tensors, options)->wait();
  return {data, data + count};
}

}  // namespace ddprun::trainer
