#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>

#include "trainer/compute/device.h"
#include "trainer/compute/operations.h"

namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kLeastBytesOfThread = 1 << 16;

at::Tensor Pad(const at::Tensor& packed, const at::Tensor& places, int64_t height) {
  if (!IsForHostKernels(packed)) {
    return at::zeros({height, packed.size(1)}, packed.options()).index_copy_(0, places, packed);
  }
  // index_copy_ is slow on a CPU, because it computes an index for each element.
  const at::Tensor from = packed.contiguous();
  at::Tensor padded = at::empty({height, from.size(1)}, from.options());
  const int64_t row_bytes = from.size(1) * from.element_size();
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(padded.mutable_data_ptr());
  const int64_t* place = places.const_data_ptr<int64_t>();
  const int64_t count = places.numel();
  const int64_t least_rows = kLeastBytesOfThread / (row_bytes + 1) + 1;
  at::parallel_for(0, height, least_rows, [&](int64_t begin, int64_t end) {
    int64_t next = std::lower_bound(place, place + count, begin) - place;
    for (int64_t row = begin; row < end; ++row) {
      char* to = target + row * row_bytes;
      if (next < count && place[next] == row) {
        std::memcpy(to, source + next++ * row_bytes, row_bytes);
      } else {
        std::memset(to, 0, row_bytes);
      }
    }
  });
  return padded;
}

class PackFunction : public torch::autograd::Function<PackFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& padded,
                            const at::Tensor& places) {
    context->saved_data["places"] = places;
    context->saved_data["height"] = padded.size(0);
    return at::index_select(padded, 0, places);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {Pad(gradients[0], context->saved_data["places"].toTensor(),
                context->saved_data["height"].toInt()),
            at::Tensor()};
  }
};

class PadFunction : public torch::autograd::Function<PadFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& packed,
                            const at::Tensor& places,
                            int64_t height) {
    context->saved_data["places"] = places;
    return Pad(packed, places, height);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {at::index_select(gradients[0], 0, context->saved_data["places"].toTensor()),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor PackRows(const at::Tensor& padded, const at::Tensor& places) {
  return PackFunction::apply(padded, places);
}

at::Tensor PadRows(const at::Tensor& packed, const at::Tensor& places, int64_t height) {
  return PadFunction::apply(packed, places, height);
}

}  // namespace ddprun::trainer
