#include "trainer/parallel/sharded_module.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <ddprun/optimizer.h>
#include "base/failure.h"

namespace ddprun::trainer {

namespace {

thread_local ShardedModule* current_module = nullptr;

// Returns the names of the children of every ModuleList and Sequential.
std::vector<std::string> NamesOfBlocks(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module* one = item.value().get();
    if (dynamic_cast<const torch::nn::ModuleListImpl*>(one) == nullptr &&
        dynamic_cast<const torch::nn::SequentialImpl*>(one) == nullptr) {
      continue;
    }
    for (const auto& child : one->named_children()) names.push_back(item.key() + "." + child.key());
  }
  return names;
}

}  // namespace

ShardedModule::ShardedModule(const torch::nn::Module& module,
                             const Mesh& mesh,
                             const FullyShardedOptions& options)
    : mesh_(mesh), tensors_(module), broadcast_buffers_(options.broadcast_buffers) {
  FindBlocks(module, options.blocks.empty() ? NamesOfBlocks(module) : options.blocks);
  VerifySameModel(tensors_.all, *mesh_.control);
  units_.emplace(tensors_.trained, blocks_, mesh_);
  BroadcastFrom(0, tensors_.others, *mesh_.data.group);
  gradients_.emplace(
      units_->units(), tensors_.trained, mesh_,
      ShardedGradients::Options{.on_complete = [this](size_t unit) { units_->Free(unit); }});
}

// A later use of the module is then an error, and not a read of memory that is gone.
ShardedModule::~ShardedModule() {
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : tensors_.trained) {
    at::Tensor tensor = parameter.tensor;
    tensor.set_data(at::empty({0}, tensor.options()));
  }
}

void ShardedModule::FindBlocks(const torch::nn::Module& module, std::vector<std::string> names) {
  const auto modules = module.named_modules("", /*include_self=*/false);
  for (const std::string& name : names) {
    const auto* found = modules.find(name);
    if (found == nullptr) {
      throw Failure(Error{.code = Code::kUsage,
                          .title = "NO SUCH MODULE",
                          .where = "FullyShardedDataParallel",
                          .what = "The model has no submodule \"" + name + "\".",
                          .hint = "Name blocks as named_modules() does, as \"layers.0\".",
                          .page = "options-that-do-not-fit"});
    }
    block_of_[found->get()] = blocks_.size();
    std::vector<size_t>& block = blocks_.emplace_back();
    for (size_t i = 0; i < tensors_.trained.size(); ++i) {
      if (tensors_.trained[i].name.starts_with(name + ".")) block.push_back(i);
    }
  }
}

ShardedModule::Block ShardedModule::BlockOf(const torch::nn::Module& module) {
  if (current_module == nullptr) return {};
  const auto found = current_module->block_of_.find(&module);
  if (found == current_module->block_of_.end()) return {};
  return {current_module, found->second};
}

ShardedModule::Forward::Forward(ShardedModule& module) : outer_(current_module) {
  module.BeforeForward();
  current_module = &module;
}

ShardedModule::Forward::~Forward() {
  current_module = outer_;
}

void ShardedModule::BeforeForward() {
  if (at::GradMode::is_enabled()) {
    if (broadcast_buffers_) BroadcastFrom(0, tensors_.buffers, *mesh_.data.group);
    gradients_->PrepareBackward(/*synchronize=*/true);
  }
  units_->BeforeForward();
}

void ShardedModule::AfterForward() {
  if (!at::GradMode::is_enabled()) units_->AfterForward();
}

double ShardedModule::ClipGradNorm(double max_norm) {
  const DeviceScalar norm = gradients_->Norm();
  ClipTo(max_norm, norm, gradients_->FlatGradients());
  return static_cast<double>(norm);
}

void ShardedModule::WithWhole(const std::function<void()>& body) {
  units_->FreeAll();
  units_->GatherAll();
  body();
  units_->FreeAll();
}

}  // namespace ddprun::trainer
