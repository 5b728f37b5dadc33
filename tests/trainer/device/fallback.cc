#include "tests/trainer/device/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/trainer/device/generator.h"
#include "tests/trainer/device/host_sync.h"
#include "tests/trainer/device/products.h"
#include "tests/trainer/device/shapes.h"
#include "tests/trainer/device/tensors.h"

namespace ddprun::simulated {
namespace {

using Values = std::vector<c10::IValue>;

// The sizes of their results depend on values of their inputs, so the host has to wait.
const std::set<std::string> kDataDependent = {
    "aten::nonzero",  "aten::masked_select",     "aten::_unique",
    "aten::_unique2", "aten::unique_dim",        "aten::unique_consecutive",
    "aten::bincount", "aten::repeat_interleave", "aten::argwhere",
};

// Tensors with other storage (see To), each translated once.
class Translation {
 public:
  enum class To { kShapes, kHost };
  explicit Translation(To to) : to_(to) {}

  c10::IValue operator()(const c10::IValue& value) {
    if (value.isTensor()) return Of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(Of(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor.has_value() ? std::optional(Of(*tensor)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kDeviceType) {
      return to_ == To::kShapes ? c10::Device(c10::kMeta) : c10::Device(c10::kCPU);
    }
    if (value.isGenerator()) {
      if (to_ == To::kShapes) return {};
      return ForKernels(value.toGenerator());
    }
    return value;
  }

  at::Tensor Of(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!IsOnDevice(tensor)) {
      // A number of the host: by value, as an argument of a kernel.
      const bool is_constant = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      return is_constant || to_ == To::kShapes ? tensor : tensor.clone();
    }
    at::Tensor& known = tensors_[tensor.unsafeGetTensorImpl()];
    if (known.defined()) return known;
    c10::Storage& storage = storages_[tensor.storage().unsafeGetStorageImpl()];
    if (!storage) {
      storage = to_ == To::kShapes ? WithoutMemory(tensor.storage()) : OnHost(tensor.storage());
    }
    const auto key = to_ == To::kShapes ? c10::DispatchKey::Meta : c10::DispatchKey::CPU;
    return known = Like(tensor, storage, key);
  }

 private:
  const To to_;
  std::map<const c10::TensorImpl*, at::Tensor> tensors_;
  std::map<const c10::StorageImpl*, c10::Storage> storages_;
};

template <typename Function>
void ForTensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) function(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector()) {
      if (tensor.has_value() && tensor->defined()) function(*tensor);
    }
  }
}

std::vector<at::Tensor> Flat(const Values& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor() && !value.toTensor().defined()) tensors.emplace_back();
    ForTensors(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool IsGenerator(const c10::Argument& argument) {
  const auto type = argument.type()->cast<c10::OptionalType>();
  return type != nullptr && type->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// One call of an operation.
class Call {
 public:
  Call(const c10::OperatorHandle& operation, torch::jit::Stack* stack)
      : operation_(operation), schema_(operation.schema()), stack_(stack) {
    const auto last = torch::jit::last(*stack, schema_.arguments().size());
    arguments_.assign(last.begin(), last.end());
    FindDevice();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!IsGenerator(schema_.arguments()[i])) continue;
      if (arguments_[i].isNone()) arguments_[i] = DefaultGenerator(device_.index());
      generator_ = arguments_[i].toGenerator();
    }
  }

  void Run() {
    const c10::DeviceGuard guard(device_);
    NoteProduct(schema_.name(), Flat(arguments_));
    const auto& returns = schema_.returns();
    const auto aliases = [](const c10::Argument& one) { return one.alias_info() != nullptr; };
    if (!std::ranges::all_of(returns, aliases)) {
      RunFunctional();
    } else if (std::ranges::all_of(returns, IsWritten)) {
      RunInPlace();
    } else {
      MakeViews();
    }
  }

 private:
  void FindDevice() {
    std::optional<c10::Device> found;
    ForAllTensors([&](const at::Tensor& tensor) {
      if (!IsOnDevice(tensor)) return;
      if (found.has_value() && tensor.device() != *found) Refuse(tensor.device(), *found);
      found = tensor.device();
    });
    for (const c10::IValue& value : arguments_) {
      if (!found.has_value() && value.isDevice()) found = value.toDevice();
    }
    device_ = found.value_or(DeviceAt(CurrentDevice()));
    ForAllTensors([&](const at::Tensor& tensor) {
      if (!IsOnDevice(tensor) && tensor.dim() > 0) Refuse(tensor.device(), device_);
    });
  }

  [[noreturn]] void Refuse(c10::Device one, c10::Device other) const {
    std::string text = "tensor on the wrong device: " + Doing::Operation() + " got";
    for (size_t i = 0; i < arguments_.size(); ++i) {
      ForTensors(arguments_[i], [&](const at::Tensor& tensor) {
        text += " " + schema_.arguments()[i].name() + " on " + tensor.device().str() + ",";
      });
    }
    throw DeviceError(text + " but takes tensors of one device, not of " + one.str() + " and " +
                      other.str() + "\n  " + Place().Text());
  }

  template <typename Function>
  void ForAllTensors(const Function& function) const {
    for (const c10::IValue& value : arguments_) ForTensors(value, function);
  }

  std::vector<Use> Uses() const {
    std::vector<Use> uses;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      // The schema does not say that running statistics are written.
      const bool is_updated = (i == 3 || i == 4) && schema_.name() == "aten::native_batch_norm";
      const bool writes = is_updated || IsWritten(schema_.arguments()[i]);
      ForTensors(arguments_[i], [&](const at::Tensor& tensor) { AddUse(tensor, writes, &uses); });
    }
    return uses;
  }

  Values Translated(Translation* translation) const {
    Values result;
    for (const c10::IValue& value : arguments_) result.push_back((*translation)(value));
    return result;
  }

  // Returns the operation's results as tensors without memory; nullopt means unknown. `*arguments`
  // gets the arguments, which the operation may have resized.
  std::optional<Values> Shapes(Values* arguments = nullptr) const {
    static std::set<std::string> without;
    static std::mutex mutex;
    Translation translation(Translation::To::kShapes);
    const Values given = Translated(&translation);
    if (auto known = ShapesOf(Doing::Operation(), given)) {
      if (arguments != nullptr) TakeOutputs(*known, arguments);
      return known;
    }
    const auto has = [&](c10::DispatchKey key) { return operation_.hasKernelForDispatchKey(key); };
    std::unique_lock lock(mutex);
    if (without.contains(Doing::Operation()) ||
        (!has(c10::DispatchKey::Meta) && !has(c10::DispatchKey::CompositeExplicitAutograd) &&
         !has(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))) {
      return std::nullopt;
    }
    lock.unlock();
    torch::jit::Stack stack = given;
    try {
      operation_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } catch (const c10::NotImplementedError&) {
      lock.lock();
      without.insert(Doing::Operation());
      return std::nullopt;
    }
    if (arguments != nullptr) *arguments = given;
    return stack;
  }

  // Replaces the written arguments by the results.
  void TakeOutputs(const Values& results, Values* arguments) const {
    *arguments = arguments_;
    for (size_t i = 0, next = 0; i < arguments->size() && next < results.size(); ++i) {
      if (IsWritten(schema_.arguments()[i])) (*arguments)[i] = results[next++];
    }
  }

  // Returns a function that runs the CPU's kernel and returns its results.
  std::function<Values()> Kernel() const {
    Translation translation(Translation::To::kHost);
    return [operation = operation_, arguments = Translated(&translation)] {
      // Boxed calls return references to what they take from the stack: `arguments` keeps it alive.
      torch::jit::Stack stack = arguments;
      operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
      return stack;
    };
  }

  std::function<void()> Drawn(std::function<void()> kernel) const {
    return generator_.defined() ? Drawing(generator_, std::move(kernel)) : kernel;
  }

  void Return(const Values& results) {
    torch::jit::drop(*stack_, arguments_.size());
    for (const c10::IValue& one : results) torch::jit::push(*stack_, one);
  }

  // Returns the arguments that are results.
  void ReturnWritten() {
    Values results;
    for (const c10::Argument& result : schema_.returns()) {
      for (size_t i = 0; i < arguments_.size(); ++i) {
        const c10::Argument& argument = schema_.arguments()[i];
        if (IsWritten(argument) &&
            argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) {
          results.push_back(arguments_[i]);
          break;
        }
      }
    }
    Return(results);
  }

  bool HasOutputs() const {
    return std::ranges::any_of(schema_.arguments(), [](const c10::Argument& argument) {
      return argument.kwarg_only() && IsWritten(argument);
    });
  }

  void RunInPlace() {
    Values shapes;
    const bool known = Shapes(&shapes).has_value();
    if (!known && HasOutputs()) {
      RunOutputsInOrder();
      return;
    }
    for (size_t i = 0; known && i < arguments_.size(); ++i) {
      if (IsWritten(schema_.arguments()[i])) ResizeAs(Flat({shapes[i]}), Flat({arguments_[i]}));
    }
    Queue(CurrentStream(device_.index()), Uses(), Drawn([kernel = Kernel()] { kernel(); }));
    ReturnWritten();
  }

  static void ResizeAs(const std::vector<at::Tensor>& shapes,
                       const std::vector<at::Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (IsOnDevice(tensors[i]) && shapes[i].sizes() != tensors[i].sizes()) {
        Resize(tensors[i], shapes[i].sizes(), shapes[i].strides());
      }
    }
  }

  void RunOutputsInOrder() {
    NoteInOrder(Doing::Operation());
    Translation translation(Translation::To::kHost);
    const Values arguments = Translated(&translation);
    QueueAndFinish(CurrentStream(device_.index()), Uses(), Drawn([&] {
                     torch::jit::Stack stack = arguments;
                     operation_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
                   }));
    // A resized result is in new memory of the CPU.
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!IsWritten(schema_.arguments()[i])) continue;
      const auto results = Flat({arguments[i]});
      const auto outputs = Flat({arguments_[i]});
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].sizes() == results[k].sizes()) continue;
        ResizeAs({results[k]}, {outputs[k]});
        QueueCopies({results[k]}, {outputs[k]});
      }
    }
    ReturnWritten();
  }

  void RunFunctional() {
    const bool depends = kDataDependent.contains(schema_.name());
    const auto is_tensor = [](const c10::Argument& one) {
      return one.type()->kind() == c10::TypeKind::TensorType || one.type()->str() == "Tensor[]";
    };
    const bool only_tensors = std::ranges::all_of(schema_.returns(), is_tensor);
    auto shapes = depends || !only_tensors ? std::nullopt : Shapes();
    if (!shapes.has_value()) {
      RunInOrder(depends         ? std::optional(HostSyncKind::kDataDependentShape)
                 : !only_tensors ? std::optional(HostSyncKind::kItem)
                                 : std::nullopt);
      return;
    }
    const Values results = Allocated(*shapes);
    std::vector<Use> uses = Uses();
    std::vector<at::Tensor> targets;
    for (const at::Tensor& tensor : Flat(results)) {
      AddUse(tensor, true, &uses);
      targets.push_back(tensor.defined() ? OnHost(tensor) : tensor);
    }
    Queue(CurrentStream(device_.index()), uses,
          Drawn([kernel = Kernel(), targets] { Copy(Flat(kernel()), targets); }));
    Return(results);
  }

  void RunInOrder(std::optional<HostSyncKind> sync) {
    if (sync.has_value()) {
      NoteHostSync(*sync, device_.index());
    } else {
      NoteInOrder(Doing::Operation());
    }
    Values results;
    QueueAndFinish(CurrentStream(device_.index()), Uses(),
                   Drawn([&, kernel = Kernel()] { results = kernel(); }));
    if (sync.has_value()) Synchronize(CurrentStream(device_.index()));
    const Values returned = Allocated(results);
    QueueCopies(Flat(results), Flat(returned));
    Return(returned);
  }

  static void Copy(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
    for (size_t i = 0; i < to.size(); ++i) {
      if (!to[i].defined() || !from[i].defined()) continue;
      TORCH_CHECK(to[i].sizes() == from[i].sizes(), "the meta kernel said ", to[i].sizes(),
                  ", the CPU's kernel ", from[i].sizes());
      to[i].copy_(from[i]);
    }
  }

  void QueueCopies(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
    std::vector<Use> uses;
    std::vector<at::Tensor> targets;
    for (const at::Tensor& tensor : to) {
      AddUse(tensor, true, &uses);
      targets.push_back(tensor.defined() ? OnHost(tensor) : tensor);
    }
    Queue(CurrentStream(device_.index()), uses, [from, targets] { Copy(from, targets); });
  }

  Values Allocated(const Values& shapes) const {
    const auto allocate = [&](const at::Tensor& shape) {
      if (!shape.defined()) return shape;
      return NewTensor(device_, shape.sizes(), shape.strides(), shape.scalar_type());
    };
    Values results;
    for (const c10::IValue& value : shapes) {
      if (value.isTensor()) {
        results.push_back(allocate(value.toTensor()));
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(allocate(tensor));
        results.push_back(list);
      } else {
        results.push_back(value);
      }
    }
    return results;
  }

  // Makes views of the first tensor among the arguments, because no operation makes views of two.
  void MakeViews() {
    const auto shapes = Shapes();
    TORCH_CHECK(shapes.has_value(), "no shapes for the view ", Doing::Operation());
    const at::Tensor base = Flat(arguments_).front();
    const auto view = [&](const at::Tensor& shape) {
      return Like(shape, base.storage(), c10::DispatchKey::PrivateUse1);
    };
    Values results;
    for (const c10::IValue& value : *shapes) {
      if (value.isTensor()) {
        results.push_back(view(value.toTensor()));
      } else {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(view(tensor));
        results.push_back(list);
      }
    }
    Return(results);
  }

  const c10::OperatorHandle operation_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* const stack_;
  Values arguments_;
  c10::Device device_ = c10::kCPU;
  at::Generator generator_;
};

}  // namespace

void Fallback(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const Doing doing(c10::toString(operation.operator_name()));
  Call(operation, stack).Run();
}

}  // namespace ddprun::simulated
