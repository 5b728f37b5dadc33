#include <ddprun/data_parallel.h>
#include "trainer/parallel/module_sync.h"

namespace ddprun {

using trainer::ModuleSync;

DataParallelBase::DataParallelBase(const torch::nn::Module& module,
                                   const Mesh& mesh,
                                   const DistributedDataParallelOptions& options)
    : sync_(std::make_unique<ModuleSync>(module, mesh, ModuleSync::OptionsOf(options))) {}

DataParallelBase::~DataParallelBase() = default;

void DataParallelBase::BeforeForward() {
  sync_->BeforeForward();
}

void DataParallelBase::AfterForward(std::span<const at::Tensor> outputs) {
  sync_->AfterForward(outputs);
}

bool DataParallelBase::SetSynchronize(bool on) {
  return sync_->SetSynchronize(on);
}

void DataParallelBase::wait_for_buckets(
    const std::function<void(std::span<const at::Tensor> parameters)>& update) {
  sync_->reducer().WaitForBuckets(update);
}

void DataParallelBase::join(const std::function<void()>& body) {
  sync_->Join(body);
}

const BucketTuning* DataParallelBase::tuning() const {
  return sync_->reducer().tuning();
}

double DataParallelBase::exposed_seconds() const {
  return sync_->reducer().exposed_seconds();
}

}  // namespace ddprun
