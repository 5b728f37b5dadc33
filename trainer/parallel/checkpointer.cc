#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <ddprun/checkpointer.h>
#include "base/env.h"
#include "base/failure.h"
#include "base/stop_signals.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/module_sync.h"
#include "trainer/parallel/whole_state.h"

namespace ddprun {

using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

// The state that torch::optim keeps for one parameter.
struct StateSlots {
  std::vector<std::pair<const char*, at::Tensor*>> tensors;  // undefined tensors do not exist yet
  int64_t* step = nullptr;
};

// Returns the slots of one parameter. If they are missing and `make` is true, makes them.
using FindSlots = std::function<StateSlots(States& states, void* parameter, bool make)>;

namespace {

StateSlots SlotsOf(torch::optim::SGDParamState& state) {
  return {{{"momentum_buffer", &state.momentum_buffer()}}};
}
template <typename AdamState>  // Adam's or AdamW's
requires requires(AdamState state) {
  state.max_exp_avg_sq();
}
StateSlots SlotsOf(AdamState& state) {
  return {{{"exp_avg", &state.exp_avg()},
           {"exp_avg_sq", &state.exp_avg_sq()},
           {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          &state.step()};
}
StateSlots SlotsOf(torch::optim::RMSpropParamState& state) {
  return {{{"square_avg", &state.square_avg()},
           {"momentum_buffer", &state.momentum_buffer()},
           {"grad_avg", &state.grad_avg()}},
          &state.step()};
}
StateSlots SlotsOf(torch::optim::AdagradParamState& state) {
  return {{{"sum", &state.sum()}}, &state.step()};
}

template <typename ParamState>
StateSlots Find(States& states, void* parameter, bool make) {
  auto found = states.find(parameter);
  if (found == states.end()) {
    if (!make) return {};
    found = states.emplace(parameter, std::make_unique<ParamState>()).first;
  }
  return SlotsOf(static_cast<ParamState&>(*found->second));
}

Failure Unsupported(const std::string& what, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "OPTIMIZER CANNOT BE SAVED",
                       .where = "Checkpointer",
                       .what = what,
                       .hint = hint,
                       .page = "optimizer-cannot-be-saved"});
}

FindSlots SlotsFor(torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;  // NOLINT: five classes with long names
  if (dynamic_cast<Adam*>(&optimizer) != nullptr) return Find<AdamParamState>;
  if (dynamic_cast<AdamW*>(&optimizer) != nullptr) return Find<AdamWParamState>;
  if (dynamic_cast<SGD*>(&optimizer) != nullptr) return Find<SGDParamState>;
  if (dynamic_cast<RMSprop*>(&optimizer) != nullptr) return Find<RMSpropParamState>;
  if (dynamic_cast<Adagrad*>(&optimizer) != nullptr) return Find<AdagradParamState>;
  throw Unsupported(
      "The optimizer is none of torch::optim's Adam, AdamW, SGD, RMSprop, Adagrad.",
      "Use one of these optimizers, or save the state with trainer/checkpoint/saver.h.");
}

}  // namespace

class Checkpointer::Impl {
 public:
  Impl(torch::nn::Module& module,
       torch::optim::Optimizer& optimizer,
       const Mesh& mesh,
       const CheckpointerOptions& options)
      : module_(module),
        optimizer_(optimizer),
        mesh_(mesh),
        folder_(options.folder),
        slots_for_(SlotsFor(optimizer)),
        attempt_(std::to_string(FromRankZero(std::random_device()()))),
        saver_({.folder = options.folder,
                .part = {.rank = mesh.data.rank, .size = mesh.data.size},
                .deadline = options.deadline_seconds,
                .retention = {.newest = options.keep}}) {
    for (const auto& item : module.named_parameters()) {
      name_of_.emplace(item.value().unsafeGetTensorImpl(), item.key());
    }
    for (const auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (name_of_.contains(parameter.unsafeGetTensorImpl())) continue;
        throw Unsupported("The optimizer has a parameter that the module does not have.",
                          "Give the checkpointer the module whose parameters() the optimizer has.");
      }
    }
    owners_ = [this](StateVisitor& visitor) { NameState(visitor); };
  }

  int64_t Restore() {
    int64_t step = INT64_MAX;
    std::optional<trainer::Checkpoint> checkpoint;
    do {
      checkpoint.reset();
      if (mesh_.data.rank == 0) {
        checkpoint =
            ValueOrThrow(trainer::OpenNewest(folder_, trainer::Verify::kSizes, step)).checkpoint;
      }
      step = FromRankZero(checkpoint ? checkpoint->step() : 0);
    } while (step > 0 && !IsWhole(step, checkpoint));
    if (mesh_.data.rank == 0) ThrowIfError(trainer::PrepareCheckpointFolder(folder_, step));
    if (step == 0) return 0;
    checkpoint->Load(owners_, [this](const std::string& own) {
      return trainer::ExchangeTexts(mesh_.control.get(), own);
    });
    return step;
  }

  void Save(int64_t step) {
    if (mesh_.data.group != nullptr) {
      std::vector<NamedParameter> buffers;
      for (const auto& item : module_.named_buffers()) {
        buffers.push_back({item.key(), item.value()});
      }
      trainer::BroadcastFrom(0, buffers, *mesh_.data.group);
    }
    saver_.Begin(trainer::SaveState(owners_), {.step = step, .attempt = attempt_});
  }

  bool AnyRank(bool here) const {
    const at::Tensor count = at::tensor({int64_t{here}});
    trainer::AllReduceOnHost(mesh_.control.get(), count);
    return count.item<int64_t>() > 0;
  }

  std::map<std::string, int64_t*> numbers;
  const int exceptions = std::uncaught_exceptions();  // active exceptions at construction
  trainer::BackgroundSaver& saver() { return saver_; }

 private:
  int64_t FromRankZero(int64_t number) const {
    const at::Tensor all = at::tensor({mesh_.data.rank == 0 ? number : 0});
    trainer::AllReduceOnHost(mesh_.control.get(), all);
    return all.item<int64_t>();
  }

  // Opens the checkpoint if it is not open, and checks this rank's share of its checksums. Returns
  // whether no rank has found damage. Throws Failure if the checkpoint cannot be read.
  bool IsWhole(int64_t step, std::optional<trainer::Checkpoint>& checkpoint) const {
    Status status;
    if (!checkpoint) {
      auto opened = trainer::Checkpoint::Open(trainer::CheckpointPath(folder_, step),
                                              trainer::Verify::kSizes);
      if (opened) {
        checkpoint = *std::move(opened);
      } else {
        status = std::move(opened).error();
      }
    }
    if (checkpoint) status = checkpoint->CheckBytes({mesh_.data.rank, mesh_.data.size});
    if (!status.ok() && !trainer::IsDamage(status.error())) throw Failure(status.error());
    return !AnyRank(!status.ok());
  }

  void NameState(StateVisitor& visitor) {
    visitor.Section("model.");
    for (const auto& item : module_.named_parameters()) visitor.Tensor(item.key(), item.value());
    for (const auto& item : module_.named_buffers()) visitor.Tensor(item.key(), item.value());
    visitor.Section("optimizer.");
    for (auto& group : optimizer_.param_groups()) {
      for (const at::Tensor& parameter : group.params()) NameSlots(visitor, parameter);
    }
    const auto groups = static_cast<int64_t>(optimizer_.param_groups().size());
    const at::Tensor rates = at::zeros({groups}, at::kDouble);
    auto* rate = rates.mutable_data_ptr<double>();
    for (const auto& group : optimizer_.param_groups()) *rate++ = group.options().get_lr();
    visitor.Tensor("learning_rates", rates);
    rate = rates.mutable_data_ptr<double>();
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(*rate++);
    visitor.Section("program.");
    for (const auto& [name, number] : numbers) visitor.Number(name, *number);
  }

  // Names first a number whose bits show which slots exist, so that loading makes these slots.
  void NameSlots(StateVisitor& visitor, const at::Tensor& parameter) {
    void* key = parameter.unsafeGetTensorImpl();
    const std::string& name = name_of_.at(key);
    StateSlots slots = slots_for_(optimizer_.state(), key, /*make=*/false);
    int64_t made = slots.tensors.empty() ? 0 : 1;
    for (size_t i = 0; i < slots.tensors.size(); ++i) {
      if (slots.tensors[i].second->defined()) made |= int64_t{2} << i;
    }
    visitor.Number(name + ".state", made);
    if (made == 0) return;
    slots = slots_for_(optimizer_.state(), key, /*make=*/true);
    if (slots.step != nullptr) visitor.Number(name + ".step", *slots.step);
    for (size_t i = 0; i < slots.tensors.size(); ++i) {
      auto& [slot_name, tensor] = slots.tensors[i];
      if ((made & (int64_t{2} << i)) == 0) continue;
      if (!tensor->defined()) *tensor = at::zeros_like(parameter.detach());
      visitor.Tensor(name + "." + slot_name, *tensor);
    }
  }

  torch::nn::Module& module_;
  torch::optim::Optimizer& optimizer_;
  const Mesh mesh_;
  const std::string folder_;
  const FindSlots slots_for_;
  const std::string attempt_;
  std::map<const void*, std::string> name_of_;  // of parameters
  trainer::VisitState owners_;
  trainer::BackgroundSaver saver_;
};

Checkpointer::Checkpointer(torch::nn::Module& module,
                           torch::optim::Optimizer& optimizer,
                           const Mesh& mesh,
                           const CheckpointerOptions& options)
    : impl_(std::make_unique<Impl>(module, optimizer, mesh, options)) {}

Checkpointer::~Checkpointer() {
  if (std::uncaught_exceptions() > impl_->exceptions) return;
  try {
    impl_->saver().Finish();
  } catch (const std::exception&) {  // a destructor cannot report that saving failed
  }
}

void Checkpointer::track(const std::string& name, int64_t& number) {
  impl_->numbers[name] = &number;
}

int64_t Checkpointer::restore() {
  return impl_->Restore();
}

void Checkpointer::save(int64_t step) {
  impl_->Save(step);
}

void Checkpointer::wait_before_update() {
  impl_->saver().WaitForCopy();
}

std::optional<Checkpointer::Outcome> Checkpointer::poll() {
  return impl_->saver().Poll();
}

std::optional<Checkpointer::Outcome> Checkpointer::finish() {
  return impl_->saver().Finish();
}

bool Checkpointer::should_stop() const {
  return impl_->AnyRank(stop_requested());
}

void install_stop_handler() {
  NoteStopSignals(Environment::OfProcess());
}

bool stop_requested() {
  return NotedStopSignal() != 0;
}

int64_t restart_count() {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return ValueOrThrow(Environment::OfProcess().GetInt("TORCHELASTIC_RESTART_COUNT", 0, 0, kMost));
}

}  // namespace ddprun
