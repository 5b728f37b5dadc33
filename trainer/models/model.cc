#include "trainer/models/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "trainer/compute/recompute.h"
#include "trainer/compute/weight_copies.h"
#include "trainer/models/layer_parameters.h"
#include "trainer/models/lora.h"
#include "trainer/models/registry.h"

namespace ddprun::trainer {

namespace {

bool IsMeta(const torch::nn::Module& module) {
  const auto is_meta = [](const at::Tensor& tensor) { return tensor.is_meta(); };
  const auto parameters = module.parameters();
  return !parameters.empty() && std::ranges::all_of(parameters, is_meta) &&
         std::ranges::all_of(module.buffers(), is_meta);
}

void ForgetMetaIn(torch::nn::Module& module) {
  for (const auto& child : module.named_children()) {
    if (IsMeta(*child.value())) {
      module.unregister_module(child.key());
    } else {
      ForgetMetaIn(*child.value());
    }
  }
}

// Returns the submodule of a dotted name, made if missing, and the last part of the name.
std::pair<torch::nn::Module*, std::string> ScopeOf(torch::nn::Module* scope,
                                                   const std::string& dotted_name) {
  std::string_view rest = dotted_name;
  for (size_t dot = rest.find('.'); dot != rest.npos; dot = rest.find('.')) {
    const std::string name(rest.substr(0, dot));
    rest.remove_prefix(dot + 1);
    const auto children = scope->named_children();
    const auto* child = children.find(name);
    scope = child != nullptr
                ? child->get()
                : scope->register_module(name, std::make_shared<torch::nn::Module>()).get();
  }
  return {scope, std::string(rest)};
}

}  // namespace

bool Stage::Holds(const std::string& name) const {
  return std::ranges::any_of(
      modules, [&](const std::string& module) { return name.starts_with(module + "."); });
}

Model::Model() : axis_(SplitLayersScope::Axis()) {}

StatePlacement Model::PlacementOf(const std::string& parameter) const {
  if (axis_ == nullptr) return {};
  const auto found = placements_.find(parameter);
  if (found != placements_.end()) return found->second;
  return {{.copies = {.rank = axis_->rank(), .size = axis_->size()}}};
}

std::vector<at::Tensor> Model::ParametersOf(const Stage& stage) const {
  std::vector<at::Tensor> found;
  for (const auto& parameter : named_parameters()) {
    if (stage.Holds(parameter.key())) found.push_back(parameter.value());
  }
  return found;
}

int64_t Model::OwnCount(int64_t whole) const {
  return axis_ == nullptr ? whole : axis_->OwnRange(whole).length;
}

at::Tensor Model::Walk(std::span<const Stage> stages, at::Tensor x) const {
  if (first_input_.defined()) x = first_input_;
  const WeightCopies copies(has_hook_ ? std::span<const at::Tensor>() : products_);
  for (size_t i = first_stage_; i < stages.size(); ++i) x = stage_hook_(stages[i], x);
  return x;
}

void Model::SetStageHook(StageHook hook) {
  stage_hook_ = std::move(hook);
  has_hook_ = true;
}

at::Tensor Model::RunStages(const Batch& batch,
                            size_t begin,
                            size_t end,
                            const at::Tensor& x) const {
  const std::vector<Stage> stages = Stages(batch);
  return Walk(std::span(stages).subspan(begin, end - begin), x);
}

at::Tensor Model::RunFromStage(size_t begin,
                               const at::Tensor& x,
                               const std::function<at::Tensor()>& call) {
  first_stage_ = begin;
  first_input_ = x;
  const auto reset = c10::make_scope_exit([this] {
    first_stage_ = 0;
    first_input_.reset();
  });
  return call();
}

void Model::DropMetaModules() {
  ForgetMetaIn(*this);
}

at::Tensor Model::AddParameter(const std::string& dotted_name, at::IntArrayRef sizes) {
  const auto [scope, name] = ScopeOf(this, dotted_name);
  const c10::Device place = ParametersOn::PlaceOf(dotted_name);
  return scope->register_parameter(name, at::empty(sizes, at::device(place)));
}

at::Tensor Model::AddSplit(const std::string& dotted_name,
                           at::IntArrayRef sizes,
                           int64_t dimension,
                           int64_t fused) {
  if (axis_ == nullptr) return AddParameter(dotted_name, sizes);
  std::vector<int64_t> own = sizes.vec();
  const int64_t each = own[dimension] / fused;
  const IndexRange range = axis_->OwnRange(each);
  own[dimension] = fused * range.length;
  for (int64_t i = 0; i < fused; ++i) {
    StatePart part{
        .slice = {.global_shape = sizes.vec(), .offset = std::vector<int64_t>(sizes.size())},
        .dimension = dimension,
        .begin = i * range.length,
        .length = range.length};
    part.slice.offset[dimension] = i * each + range.begin;
    placements_[dotted_name].push_back(std::move(part));
  }
  return AddParameter(dotted_name, own);
}

at::Tensor Model::AddBuffer(const std::string& dotted_name, const at::Tensor& value) {
  const auto [scope, name] = ScopeOf(this, dotted_name);
  return scope->register_buffer(name, value.to(ParametersOn::PlaceOf(dotted_name)));
}

at::Tensor Model::AdoptParameter(const std::string& dotted_name, const at::Tensor& value) {
  const std::vector<at::Tensor> known = parameters();
  if (std::ranges::any_of(known, [&](const auto& one) { return one.is_same(value); })) return value;
  const auto [scope, name] = ScopeOf(this, dotted_name);
  return scope->register_parameter(name, value, value.requires_grad());
}

torch::OrderedDict<std::string, at::Tensor> Model::State() const {
  auto state = named_parameters();
  state.update(named_buffers());
  return state;
}

Affine Model::AddLinear(const std::string& name,
                        int64_t in,
                        int64_t out,
                        const LinearOptions& options) {
  const bool out_in = options.layout == WeightLayout::kOutIn;
  const std::array<int64_t, 2> sizes = {out_in ? out : in, out_in ? in : out};
  Affine layer;
  layer.layout = options.layout;
  layer.lora = std::make_shared<LoraMatrices>();
  if (axis_ == nullptr || options.split == Split::kNone) {
    layer.weight = AddParameter(name + ".weight", sizes);
    products_.push_back(layer.weight);
    if (options.bias) layer.bias = products_.emplace_back(AddParameter(name + ".bias", {out}));
    linear_modules_.push_back({name, layer});
    return layer;
  }
  layer.split = options.split;
  layer.outputs = out;
  layer.axis = axis_.get();
  const bool by_inputs = options.split == Split::kInputs;
  layer.weight = AddSplit(name + ".weight", sizes, by_inputs == out_in ? 1 : 0, options.fused);
  products_.push_back(layer.weight);
  if (options.bias) {
    layer.bias = by_inputs ? AddParameter(name + ".bias", {out})
                           : AddSplit(name + ".bias", {out}, 0, options.fused);
  }
  linear_modules_.push_back({name, layer});
  return layer;
}

WordVectors Model::AddWordVectors(const std::string& name, int64_t vocabulary, int64_t width) {
  return {.weight = AddSplit(name + ".weight", {vocabulary, width}, 0, /*fused=*/1),
          .vocabulary = vocabulary,
          .axis = axis_.get()};
}

Affine Model::AddNorm(const std::string& name, int64_t width) {
  return {AddParameter(name + ".weight", {width}), AddParameter(name + ".bias", {width})};
}

void Model::Initialize() {
  const at::NoGradGuard no_grad;
  for (auto& parameter : named_parameters()) {
    if (IsLora(parameter.key())) continue;
    InitializeParameter(parameter.key(), parameter.value());
  }
  InitializeLora(*this);
}

void RecomputeBlocks(Model& model) {
  std::map<std::vector<std::string>, std::vector<at::Tensor>> known;
  model.SetStageHook([&model, known](const Stage& stage, const at::Tensor& x) mutable {
    if (!stage.is_block) return stage.forward(x);
    std::vector<at::Tensor>& parameters = known[stage.modules];
    if (parameters.empty()) parameters = model.ParametersOf(stage);
    return RunWithRecompute(stage.forward, x, parameters);
  });
}

int64_t ParameterCount(const Model& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

int64_t StateBytes(const Model& model) {
  int64_t bytes = 0;
  for (const auto& tensor : model.State()) bytes += static_cast<int64_t>(tensor->nbytes());
  return bytes;
}

void CopyState(const Model& from, Model& to) {
  const at::NoGradGuard no_grad;
  const auto state = from.State();
  for (auto& item : to.State()) {
    const at::Tensor& source = state[item.key()];
    if (source.sizes() == item.value().sizes()) {
      item.value().copy_(source);
      continue;
    }
    for (const StatePart& part : to.PlacementOf(item.key())) {
      const int64_t dimension = part.dimension;
      item.value()
          .narrow(dimension, part.begin, part.length)
          .copy_(source.narrow(dimension, part.slice.offset[dimension], part.length));
    }
  }
}

}  // namespace ddprun::trainer
