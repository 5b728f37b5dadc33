#include "trainer/models/torchscript.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/text.h"
#include "trainer/compute/precision.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;

enum class Argument { kInputs, kTargets, kAttentionMask, kTokenTypeIds, kDefault };

Failure Unusable(const std::string& path, const std::string& what) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "TORCHSCRIPT FILE CANNOT BE USED",
                       .where = path,
                       .what = "\"" + path + "\" " + what,
                       .hint = "Make it with torch.jit.script(module).save(\"model.pt\"), as "
                               "docs/torchscript.md shows.",
                       .page = "torchscript"});
}

Failure LossKeyDoesNotFit(const std::string& path) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "KEYS THAT DO NOT FIT",
                       .where = path,
                       .what = "The forward of \"" + path +
                               "\" takes targets and gives the loss itself, so that training.loss, "
                               "training.label_smoothing and training.class_weights would change "
                               "nothing.",
                       .hint = "Remove these keys, or the targets from the forward.",
                       .page = "keys-that-do-not-fit"});
}

// Returns the first line, because the rest is a C++ backtrace.
std::string Brief(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

torch::jit::Module Open(const std::string& path, c10::Device device = at::kCPU) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw Unusable(path, "is no file that can be read.");
  try {
    return torch::jit::load(path, device);
  } catch (const c10::Error& caught) {
    throw Unusable(path, "is no TorchScript file of this or an earlier PyTorch: " + Brief(caught));
  }
}

Argument ArgumentOfName(const std::string& name) {
  if (name == "targets" || name == "target" || name == "labels") return Argument::kTargets;
  if (name == "attention_mask") return Argument::kAttentionMask;
  if (name == "token_type_ids") return Argument::kTokenTypeIds;
  return Argument::kDefault;
}

// Returns the arguments of forward, except self.
std::vector<Argument> ArgumentsOf(const std::string& path, const torch::jit::Module& module) {
  const auto method = module.find_method("forward");
  if (!method) throw Unusable(path, "holds a module without a forward.");
  const auto& schema = method->function().getSchema();
  std::vector<Argument> arguments;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    Argument argument = i == 1 ? Argument::kInputs : ArgumentOfName(formal.name());
    if (argument == Argument::kDefault && !formal.default_value()) {
      throw Unusable(path, "has a forward with an argument \"" + formal.name() +
                               "\"; besides the first, only targets, labels, attention_mask and "
                               "token_type_ids are known, and arguments with a default.");
    }
    arguments.push_back(argument);
  }
  if (arguments.empty()) throw Unusable(path, "has a forward that takes no inputs.");
  return arguments;
}

// Returns the layers whose mode is the constant `on` in the graph, as after tracing.
std::set<std::string> LayersFixed(const torch::jit::Block& block, bool on) {
  std::set<std::string> names;
  for (const torch::jit::Node* node : block.nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) names.merge(LayersFixed(*inner, on));
    const std::string name = node->kind().toUnqualString();
    const bool drops = name.ends_with("dropout");
    const bool norms = name == "batch_norm";
    if (!node->kind().is_aten() || (!drops && !norms)) continue;
    const auto mode = torch::jit::toIValue(node->namedInput(norms ? "training" : "train"));
    if (!mode || !mode->isBool() || mode->toBool() != on) continue;
    names.insert(norms ? "batch norm" : "dropout");
  }
  return names;
}

class TorchScript final : public Model {
 public:
  TorchScript(const std::string& path, const LossOptions& loss, c10::Device device)
      : path_(path),
        device_(device),
        module_(Open(path, device)),
        arguments_(ArgumentsOf(path, module_)) {
    SetLoss(loss);
    for (const auto& parameter : module_.named_parameters()) {
      AdoptParameter(parameter.name, parameter.value);
    }
    if (TakesTargets() && (loss.kind != Loss::kAuto || loss.label_smoothing > 0)) {
      throw LossKeyDoesNotFit(path);
    }
    for (const auto& buffer : module_.named_buffers()) AddBuffer(buffer.name, buffer.value);
  }

  void train(bool on = true) override {
    Model::train(on);
    module_.train(on);
  }

  at::Tensor Outputs(const Batch& batch) override { return Run(batch).outputs; }

  at::Tensor LossFrom(const at::Tensor& outputs, const Batch& batch) override {
    // A module that takes targets has returned its loss with the outputs.
    if (!TakesTargets()) return LossOf(loss_, outputs, batch, is_training());
    return last_loss_;
  }

  at::Tensor Loss(const Batch& batch) override {
    if (TakesTargets() && batch.weights.defined()) throw LossKeyDoesNotFit(path_);
    if (TakesTargets()) return Run(batch).loss;
    return LossOf(loss_, Run(batch).outputs, batch, is_training());
  }

  std::string ConfigJson() const override {
    const nlohmann::ordered_json config = {{"model_type", "torchscript"}, {"file", kFileName}};
    return config.dump(2) + "\n";
  }

  void SaveFiles(const std::string& folder) const override {
    AtomicFile file = ValueOrThrow(AtomicFile::Create((fs::path(folder) / kFileName).string()));
    Status status;
    const auto write = [&](const void* bytes, size_t count) {
      if (status.ok()) status = file.Write({static_cast<const char*>(bytes), count});
      return status.ok() ? count : 0;
    };
    try {
      torch::jit::ExportModule(module_, write);
    } catch (const c10::Error&) {
      if (status.ok()) throw;
    }
    ThrowIfError(std::move(status));
    ThrowIfError(file.Finish(Durability::kUnsynced));
  }

 private:
  static constexpr const char* kFileName = "model.pt";

  struct Result {
    at::Tensor outputs;
    at::Tensor loss;  // undefined unless forward takes targets
  };

  bool TakesTargets() const {
    return std::find(arguments_.begin(), arguments_.end(), Argument::kTargets) != arguments_.end();
  }

  c10::IValue ValueFor(size_t index, const Batch& batch) const {
    const auto optional = [](const at::Tensor& tensor) {
      return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
    };
    switch (arguments_[index]) {
      case Argument::kInputs:
        return batch.inputs;
      case Argument::kTargets:
        return batch.targets;
      case Argument::kAttentionMask:
        return optional(batch.attention_mask);
      case Argument::kTokenTypeIds:
        return optional(batch.token_type_ids);
      case Argument::kDefault:
        break;
    }
    return *module_.get_method("forward")
                .function()
                .getSchema()
                .arguments()[index + 1]
                .default_value();
  }

  Result Run(const Batch& batch) {
    std::vector<c10::IValue> values;
    for (size_t i = 0; i < arguments_.size(); ++i) values.push_back(ValueFor(i, batch));
    const c10::IValue returned = Call(std::move(values));
    std::vector<at::Tensor> tensors;
    if (returned.isTensor()) {
      tensors = {returned.toTensor()};
    } else if (returned.isTuple()) {
      for (const c10::IValue& element : returned.toTupleRef().elements()) {
        if (element.isTensor()) tensors.push_back(element.toTensor());
      }
    }
    if (tensors.empty()) throw Unusable(path_, "has a forward that returns no tensor.");
    if (!TakesTargets()) return {.outputs = tensors[0], .loss = {}};
    if (tensors[0].dim() != 0) {
      throw Unusable(path_,
                     "has a forward that takes targets; the first tensor that it returns "
                     "must be the mean loss, a tensor without dimensions.");
    }
    last_loss_ = tensors[0];
    // Without outputs, the loss replaces them, which is enough for a gradient.
    return {.outputs = tensors.size() > 1 ? tensors[1] : tensors[0], .loss = tensors[0]};
  }

  c10::IValue Call(std::vector<c10::IValue> values) {
    const AutocastScope autocast(device_.type());
    try {
      return module_.forward(std::move(values));
    } catch (const std::exception& error) {
      // The message ends with the line of the Python source.
      throw Failure(Error{.title = "ERROR IN THE TORCHSCRIPT MODEL",
                          .where = path_,
                          .what = error.what(),
                          .hint = "Try the module in Python on inputs of the data's shape.",
                          .page = "torchscript"});
    }
  }

  const std::string path_;
  const c10::Device device_;
  torch::jit::Module module_;
  const std::vector<Argument> arguments_;
  at::Tensor last_loss_;
};

}  // namespace

std::vector<std::string> TorchScriptNotes(const std::string& path) {
  const torch::jit::Module module = Open(path);
  const auto method = module.find_method("forward");
  if (!method) return {};  // LoadTorchScript() reports this error
  const std::shared_ptr<torch::jit::Graph> graph = method->graph()->copy();
  torch::jit::Inline(*graph);
  std::vector<std::string> notes;
  for (const bool on : {false, true}) {
    const std::set<std::string> names = LayersFixed(*graph->block(), on);
    if (names.empty()) continue;
    const std::string layers = "the mode of its " + FormatList(names, " and ") + " is that of ";
    notes.push_back(on ? "traced after train(): " + layers +
                             "training, also in validation; torch.jit.script follows the mode"
                       : "traced after eval(): " + layers +
                             "evaluation, also in training; trace the module after train(), or "
                             "use torch.jit.script, which follows the mode");
  }
  return notes;
}

std::shared_ptr<Model> LoadTorchScript(const std::string& path,
                                       const LossOptions& loss,
                                       c10::Device device) {
  return std::make_shared<TorchScript>(path, loss, device);
}

}  // namespace ddprun::trainer
