#include <ATen/core/Tensor.h>

#include <vector>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

class CompressHook : public CommHook {
 public:
  explicit CompressHook(at::ScalarType type) : type_(type) {}

  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override {
    at::Tensor& packed = PackedBuffer(bucket, group);
    packed.copy_(bucket.flat);
    return [work = BeginAllReduce(group, packed, c10d::ReduceOp::AVG), packed, flat = bucket.flat] {
      work->wait();
      flat.copy_(packed);
    };
  }

 private:
  // Returns a buffer that the hook keeps, because fresh shared memory costs more than the copy.
  at::Tensor& PackedBuffer(const GradientBucket& bucket, c10d::Backend& group) {
    if (packed_.size() <= bucket.index) packed_.resize(bucket.index + 1);
    at::Tensor& packed = packed_[bucket.index];
    if (!packed.defined() || packed.numel() != bucket.flat.numel()) {
      packed = at::Tensor();
      packed = MakeFlat(group, bucket.flat.numel(), bucket.flat.options().dtype(type_));
    }
    return packed;
  }

  const at::ScalarType type_;
  std::vector<at::Tensor> packed_;  // by bucket
};

}  // namespace

std::shared_ptr<CommHook> MakeCompressHook(at::ScalarType type) {
  return std::make_shared<CompressHook>(type);
}

}  // namespace ddprun
