// The values of CUDA's operators: each runs as LibTorch wrote it, with kernels that do nothing, so
// that results are allocated and launches are logged; then the CPU's kernel computes over the same
// memory, in the stream's order. A module like libddprun_cuda.so, which it needs: loaded in its
// place (DDPRUN_CUDA_MODULE), it is registered after LibTorch's own kernels.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tests/trainer/standin/device.h"

namespace {

using Values = std::vector<c10::IValue>;
using Meaning = std::function<void(const c10::OperatorHandle&, torch::jit::Stack*)>;

// They read no values, or copy memory.
const std::set<std::string> kOwn = {"aten::_local_scalar_dense",
                                    "aten::_fused_sdp_choice",
                                    "aten::record_stream",
                                    "aten::resize_",
                                    "aten::set_",
                                    "aten::empty",
                                    "aten::empty_strided",
                                    "aten::is_set_to",
                                    "aten::_pin_memory",
                                    "aten::is_pinned",
                                    "aten::_resize_output_",
                                    "aten::_has_compatible_shallow_copy_type"};

// The host reads values: sizes of the results depend on them.
const std::set<std::string> kByValues = {"aten::nonzero",
                                         "aten::masked_select",
                                         "aten::_unique",
                                         "aten::_unique2",
                                         "aten::unique_dim",
                                         "aten::unique_consecutive",
                                         "aten::unique_dim_consecutive",
                                         "aten::bincount",
                                         "aten::repeat_interleave",
                                         "aten::equal"};

thread_local int depth = 0;
struct Deeper {
  Deeper() { ++depth; }
  ~Deeper() { --depth; }
};

bool IsWritten(const c10::Argument& one) {
  return one.alias_info() != nullptr && one.alias_info()->isWrite();
}

template <typename Function>
c10::IValue Mapped(const c10::IValue& value, const Function& of) {
  if (value.isTensor()) return of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(of(one));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& one : value.toOptionalTensorVector())
      list.push_back(one ? std::optional(of(*one)) : std::nullopt);
    return list;
  }
  return value;
}

std::vector<at::Tensor> Tensors(const c10::IValue& value) {
  std::vector<at::Tensor> all;
  Mapped(value, [&](const at::Tensor& one) {
    all.push_back(one);
    return one;
  });
  return all;
}

// The same memory as a tensor of the CPU. Whoever keeps it keeps `tensor`'s memory as CUDA does:
// not at all, memory is used again in the stream's order.
at::Tensor OnHost(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  TORCH_CHECK(tensor.layout() == c10::kStrided, "the stand-in knows no sparse tensors");
  at::Tensor host = at::from_blob(tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(),
                                  tensor.strides(), tensor.options().device(c10::kCPU));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

// One generator of the CPU for each of CUDA's, from its seed.
at::Generator GeneratorFor(const at::Generator& cuda) {
  static std::mutex mutex;
  static std::map<const c10::GeneratorImpl*, std::pair<uint64_t, at::Generator>> all;
  const std::lock_guard lock(mutex);
  const uint64_t seed = cuda.current_seed();
  auto& [known, generator] = all[cuda.unsafeGetGeneratorImpl()];
  const bool is_fresh = !generator.defined() || known != seed || cuda.get_offset() == 0;
  if (is_fresh) generator = at::detail::createCPUGenerator(seed);
  known = seed;
  return generator;
}

at::Tensor Wide(const at::Tensor& one) {
  return one.defined() && at::isReducedFloatingType(one.scalar_type()) ? one.to(c10::kFloat) : one;
}

// The CPU's kernel takes one type; CUDA's softmax reads 16 bits and writes float32.
void InFloat(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const auto& arguments = operation.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (IsWritten(arguments[i])) continue;
    (*stack)[i] = Mapped((*stack)[i], Wide);
    if (arguments[i].name() == "half_to_float") (*stack)[i] = false;
    if (arguments[i].name() == "input_dtype") (*stack)[i] = static_cast<int64_t>(c10::kFloat);
  }
  operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// Attention by its definition. Dropout is left out: the fused kernels draw numbers of their own.
struct Attention {
  at::Tensor q, k, v, p, lse;
  double scale = 1;
  int64_t group = 1;  // heads of q for each of k

  Attention(const at::Tensor& queries,
            const at::Tensor& keys,
            const at::Tensor& values,
            const at::Tensor& bias,
            double dropout,
            bool is_causal,
            const c10::IValue& given_scale)
      : q(queries.to(c10::kFloat)),
        scale(given_scale.isNone() ? 1 / std::sqrt(static_cast<double>(queries.size(-1)))
                                   : given_scale.toDouble()),
        group(queries.size(1) / keys.size(1)) {
    TORCH_CHECK(dropout == 0, "the stand-in's attention has no dropout");
    k = keys.to(c10::kFloat).repeat_interleave(group, 1);
    v = values.to(c10::kFloat).repeat_interleave(group, 1);
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
    if (bias.defined()) scores = scores + bias.to(c10::kFloat);
    if (is_causal)
      scores = scores.masked_fill(at::ones({q.size(2), k.size(2)}, c10::kBool).tril().logical_not(),
                                  -INFINITY);
    lse = at::logsumexp(scores, {-1});
    p = at::softmax(scores, -1);
  }
  at::Tensor Shared(const at::Tensor& gradient) const {
    return gradient
        .reshape(
            {gradient.size(0), gradient.size(1) / group, group, gradient.size(2), gradient.size(3)})
        .sum(2);
  }
  void Backward(const at::Tensor& gradient, torch::jit::Stack* stack) const {
    const at::Tensor go = gradient.to(c10::kFloat), dp = at::matmul(go, v.transpose(-2, -1));
    const at::Tensor ds = p * (dp - (dp * p).sum(-1, true)) * scale;
    *stack = {at::matmul(ds, k), Shared(at::matmul(ds.transpose(-2, -1), q)),
              Shared(at::matmul(p.transpose(-2, -1), go))};
  }
  void Forward(int64_t rows, torch::jit::Stack* stack) const {
    *stack = {at::matmul(p, v), at::constant_pad_nd(lse, {0, rows - lse.size(-1)}, INFINITY)};
  }
};

at::Tensor Optional(const c10::IValue& value) {
  return value.isNone() ? at::Tensor() : value.toTensor();
}

void Efficient(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  const Attention one(a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), Optional(a[3]),
                      a[5].toDouble(), a[6].toBool(), a[7]);
  one.Forward(a[4].toBool() ? (a[0].toTensor().size(2) + 31) / 32 * 32 : one.lse.size(-1), stack);
  if (!a[4].toBool()) stack->pop_back();
}
void EfficientBackward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  TORCH_CHECK(!a[10].toBoolList()[3], "the stand-in's attention has no gradient of its bias");
  Attention(a[1].toTensor(), a[2].toTensor(), a[3].toTensor(), Optional(a[4]), a[9].toDouble(),
            a[11].toBool(), a[12])
      .Backward(a[0].toTensor(), stack);
}
void Flash(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  Attention(a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), {}, a[3].toDouble(), a[4].toBool(),
            a[6])
      .Forward(a[0].toTensor().size(2), stack);
}
void FlashBackward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  Attention(a[1].toTensor(), a[2].toTensor(), a[3].toTensor(), {}, a[10].toDouble(), a[11].toBool(),
            a[14])
      .Backward(a[0].toTensor(), stack);
}

std::vector<int64_t> LastDims(const c10::IValue& shape) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.toIntVector().size(); ++i)
    dims.push_back(-1 - static_cast<int64_t>(i));
  return dims;
}
void RmsNorm(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  const at::Tensor x = a[0].toTensor().to(c10::kFloat);
  const double eps = a[3].isNone() ? 1.1920928955078125e-07 : a[3].toDouble();
  const at::Tensor rstd = at::rsqrt(x.square().mean(LastDims(a[1]), true) + eps);
  const at::Tensor weight = Optional(a[2]);
  *stack = {weight.defined() ? x * rstd * weight : x * rstd, rstd};
}
void RmsNormBackward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const Values a = *stack;
  const at::Tensor rstd = a[3].toTensor(), weight = Optional(a[4]),
                   gradient = Wide(a[0].toTensor());
  const at::Tensor x = Wide(a[1].toTensor()) * rstd,
                   g = weight.defined() ? gradient * weight : gradient;
  const auto dims = LastDims(a[2]);
  const at::Tensor dw =
      (gradient * x).flatten(0, x.dim() - 1 - static_cast<int64_t>(dims.size())).sum(0);
  *stack = {rstd * (g - x * (g * x).mean(dims, true)), dw};
}

const std::map<std::string, Meaning> kMeanings = {
    {"aten::_fused_rms_norm", RmsNorm},
    {"aten::_fused_rms_norm_backward", RmsNormBackward},
    {"aten::_scaled_dot_product_efficient_attention", Efficient},
    {"aten::_scaled_dot_product_efficient_attention_backward", EfficientBackward},
    {"aten::_scaled_dot_product_flash_attention", Flash},
    {"aten::_scaled_dot_product_flash_attention_backward", FlashBackward},
    {"aten::_softmax", InFloat},
    {"aten::_log_softmax", InFloat},
    {"aten::_softmax_backward_data", InFloat},
    {"aten::_log_softmax_backward_data", InFloat},
    {"aten::native_layer_norm", InFloat},
    {"aten::native_layer_norm_backward", InFloat},
};

class Wrapped final : public c10::OperatorKernel {
 public:
  explicit Wrapped(c10::SafeKernelFunction original) : original_(std::move(original)) {}

  void operator()(const c10::OperatorHandle& operation,
                  c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const std::string& name = operation.schema().name();
    const bool by_values = kByValues.contains(name);
    if (depth > 0 && !by_values) return original_.callBoxed(operation, keys, stack);
    const Deeper deeper;
    const size_t count = operation.schema().arguments().size();
    const auto last = torch::jit::last(*stack, count);
    const Values arguments(last.begin(), last.end());
    std::optional<c10::Device> device;
    for (const c10::IValue& one : arguments) {
      for (const at::Tensor& tensor : Tensors(one)) {
        if (!device && tensor.defined() && tensor.is_cuda()) device = tensor.device();
      }
      if (!device && one.isDevice() && one.toDevice().is_cuda()) device = one.toDevice();
    }
    const c10::cuda::OptionalCUDAGuard guard(device);
    void* const stream = c10::cuda::getCurrentCUDAStream().stream();
    if (by_values) return ByValues(operation, arguments, stream, stack);
    if (name == "aten::copy_" && IsMemcpy(arguments))
      return original_.callBoxed(operation, keys, stack);
    InOrder(operation, keys, arguments, stream, stack);
  }

 private:
  static bool IsMemcpy(const Values& arguments) {
    const at::Tensor to = arguments[0].toTensor(), from = arguments[1].toTensor();
    return to.scalar_type() == from.scalar_type() && to.is_contiguous() && from.is_contiguous() &&
           to.sizes() == from.sizes();
  }

  // The arguments for the CPU's kernel.
  static Values HostArguments(const c10::OperatorHandle& operation, const Values& arguments) {
    Values host;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = operation.schema().arguments()[i];
      const bool written = IsWritten(argument);
      c10::IValue value = Mapped(arguments[i], [&](const at::Tensor& one) {
        // A number of the host is read when the operator is called, pinned memory later.
        const bool is_host = one.defined() && one.is_cpu() && !written &&
                             !one.unsafeGetTensorImpl()->is_wrapped_number();
        return is_host && !standin::IsPinned(one.const_data_ptr()) ? one.clone() : OnHost(one);
      });
      if (value.isDevice()) value = c10::Device(c10::kCPU);
      const auto type = argument.type()->cast<c10::OptionalType>();
      if (type != nullptr && type->getElementType()->kind() == c10::TypeKind::GeneratorType) {
        value =
            GeneratorFor(arguments[i].isNone() ? at::globalContext().defaultGenerator(c10::Device(
                                                     c10::kCUDA, c10::cuda::current_device()))
                                               : arguments[i].toGenerator());
      }
      host.push_back(std::move(value));
    }
    return host;
  }

  static Values Compute(const c10::OperatorHandle& operation, const Values& arguments) {
    const at::AutoDispatchBelowADInplaceOrView below;
    torch::jit::Stack stack = arguments;
    const auto meaning = kMeanings.find(operation.schema().name());
    if (meaning != kMeanings.end()) {
      meaning->second(operation, &stack);
    } else {
      operation.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    return stack;
  }

  static void Store(const Values& found,
                    const std::vector<at::Tensor>& targets,
                    const std::string& name) {
    const at::AutoDispatchBelowADInplaceOrView below;
    size_t next = 0;
    for (const c10::IValue& value : found) {
      for (const at::Tensor& one : Tensors(value)) {
        at::Tensor target = targets.at(next++);
        if (!one.defined() || !target.defined() || one.is_same(target) || target.numel() == 0)
          continue;
        TORCH_CHECK(one.numel() == target.numel(), name, ": CUDA's result has sizes ",
                    target.sizes(), ", the CPU's ", one.sizes());
        target.copy_(one.reshape(target.sizes()));
      }
    }
  }

  void InOrder(const c10::OperatorHandle& operation,
               c10::DispatchKeySet keys,
               const Values& arguments,
               void* stream,
               torch::jit::Stack* stack) {
    const auto& schema = operation.schema();
    const std::string& name = schema.name();
    TORCH_CHECK(kMeanings.contains(name) ||
                    operation.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
                "stand-in: ", name, " has no kernel of the CPU");
    Values host = HostArguments(operation, arguments);
    // What the operator changes is kept, because its copies and fills are real and its kernels not.
    auto kept = std::make_shared<std::vector<std::pair<at::Tensor, at::Tensor>>>();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      if (!IsWritten(argument) || argument.kwarg_only() || name == "aten::copy_" ||
          name == "aten::fill_" || name == "aten::zero_")
        continue;
      for (const at::Tensor& one : Tensors(host[i])) kept->emplace_back(one, at::Tensor());
    }
    if (!kept->empty()) {
      standin::Enqueue(
          stream,
          [kept] {
            for (auto& [one, copy] : *kept) copy = one.defined() ? one.clone() : one;
          },
          false);
    }
    original_.callBoxed(operation, keys, stack);
    const size_t returned = schema.returns().size();
    const auto last = torch::jit::last(*stack, returned);
    std::vector<at::Tensor> targets;
    for (const c10::IValue& one : last) {
      for (const at::Tensor& tensor : Tensors(one)) targets.push_back(OnHost(tensor));
    }
    // Results for which the caller gave memory may have been resized.
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (IsWritten(schema.arguments()[i])) host[i] = Mapped(arguments[i], OnHost);
    }
    const bool in_place = !schema.returns().empty() && schema.returns()[0].alias_info() != nullptr;
    standin::Enqueue(
        stream,
        [operation, kept, host, targets = in_place ? std::vector<at::Tensor>() : targets, in_place,
         name] {
          for (auto& [one, copy] : *kept) {
            if (one.defined()) one.copy_(copy);
          }
          const Values found = Compute(operation, host);
          if (!in_place && !found.empty()) Store(found, targets, name);
        },
        false);
    if (name == "aten::copy_" && arguments[0].toTensor().is_cpu() && !arguments[2].toBool())
      standin::FinishStream(stream);
  }

  static void ByValues(const c10::OperatorHandle& operation,
                       const Values& arguments,
                       void* stream,
                       torch::jit::Stack* stack) {
    TORCH_CHECK(!standin::IsCapturing(stream), operation.schema().name(),
                " reads values, which no capture allows");
    standin::FinishStream(stream);
    const Values found = Compute(operation, HostArguments(operation, arguments));
    torch::jit::drop(*stack, arguments.size());
    for (const c10::IValue& one : found) {
      torch::jit::push(*stack, Mapped(one, [](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.to(c10::kCUDA) : tensor;
      }));
    }
  }

  const c10::SafeKernelFunction original_;
};

bool IsView(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& one) {
    return one.alias_info() != nullptr && !one.alias_info()->isWrite();
  });
}

struct Registration {
  Registration() {
    const c10::WarningUtils::WarningHandlerGuard quiet(Quiet());
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      if (!name.name.starts_with("aten::")) continue;
      const auto operation = dispatcher.findSchema(name);
      // copy_ is registered for all devices at once, and calls CUDA's kernels itself.
      const bool is_copy = name.name == "aten::copy_" && name.overload_name.empty();
      if (!operation || (!is_copy && !operation->hasKernelForDispatchKey(c10::DispatchKey::CUDA)))
        continue;
      if (kOwn.contains(name.name) || IsView(operation->schema())) continue;
      Register(name, c10::BoxedKernel::makeFromFunctor(std::make_unique<Wrapped>(
                         operation->getComputedKernelForDispatchKey(c10::DispatchKey::CUDA))));
    }
    at::globalContext().setUserEnabledCuDNN(false);
  }

  void Register(const c10::OperatorName& name, c10::BoxedKernel kernel) {
    const std::string text =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library.impl(text.c_str(), torch::CppFunction::makeFromBoxedKernel(std::move(kernel)));
  }

  static c10::WarningHandler* Quiet() {
    struct Silent final : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    };
    static Silent one;
    return &one;
  }

  torch::Library library{torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__};
};

Registration& registration = *new Registration;

}  // namespace
