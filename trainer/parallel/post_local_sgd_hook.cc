#include <utility>

#include <ddprun/comm_hook.h>
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun {

using namespace trainer;  // NOLINT: the internals of this library

namespace {

std::function<void()> StartAverage(const at::Tensor& flat, c10d::Backend& group) {
  return [work = BeginAllReduce(group, flat, c10d::ReduceOp::AVG)] { work->wait(); };
}

class PostLocalSgdHook : public CommHook {
 public:
  explicit PostLocalSgdHook(PostLocalSgdOptions options) : options_(std::move(options)) {}

  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override {
    const bool everywhere = steps_ < options_.start_step;
    if (bucket.last && everywhere) ++steps_;
    if (everywhere) return StartAverage(bucket.flat, group);
    if (options_.subgroup != nullptr) return StartAverage(bucket.flat, *options_.subgroup);
    return [] {};
  }

  void NameState(std::span<const NamedParameter> /*parameters*/, StateVisitor& visitor) override {
    visitor.Number("step", steps_);
  }

 private:
  const PostLocalSgdOptions options_;
  int64_t steps_ = 0;  // with averages over all ranks
};

}  // namespace

std::shared_ptr<CommHook> MakePostLocalSgdHook(const PostLocalSgdOptions& options) {
  return std::make_shared<PostLocalSgdHook>(options);
}

}  // namespace ddprun
