// Kernels of ddprun's own on a device. Where there are none, ATen's operators compute the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

namespace ddprun::trainer {

// Rows of scores whose losses are wanted. All tensors are on one device.
struct RowLossArguments {
  at::Tensor scores = {};  // float32 [n, V], rows begin at multiples of 16 bytes
  at::Tensor derivatives =
      {};  // the kernels' type [n, V], rows like the scores'; undefined: not wanted
  at::Tensor targets = {};  // int64 [n]; -100 does not count, another one out of range gives NaN
  at::Tensor losses = {};   // float32 [n], receives the losses
  double smoothing = 0;
};

// Rows to normalize. All tensors are contiguous and begin at multiples of 16 bytes.
struct NormArguments {
  at::Tensor x = {};       // float32 [..., C]
  at::Tensor addend = {};  // the kernels' type, like x; undefined: none
  at::Tensor weight = {};  // float32 [C]
  at::Tensor bias = {};    // float32 [C]; undefined: none
  at::Tensor sum = {};     // float32, receives x + addend; undefined without an addend
  at::Tensor y = {};       // the kernels' type, receives the result; undefined: not wanted
  at::Tensor wide_y = {};  // float32, receives the result; undefined: not wanted
  at::Tensor mean = {};    // float32 [N], receives the means of LayerNorm
  at::Tensor factor = {};  // float32 [N], receives 1 / deviation
  double epsilon = 0;
  bool centers = true;  // LayerNorm; false: RMSNorm
};

struct NormGradientArguments {
  at::Tensor sum = {};      // what was normalized
  at::Tensor of_y = {};     // undefined: zero
  at::Tensor of_wide = {};  // the gradient of `sum` if of_sum, else of wide_y; undefined: zero
  bool of_sum = false;
  at::Tensor weight = {};
  at::Tensor mean = {};
  at::Tensor factor = {};
  at::Tensor of_x = {};       // float32, receives the gradient of x
  at::Tensor of_addend = {};  // the kernels' type, receives the same; undefined: not wanted
  bool centers = true;
};

// All functions work in the order of the current stream. Any thread.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;
  virtual at::DeviceType device_type() const = 0;
  virtual at::ScalarType type() const = 0;  // float32, bfloat16 or float16
  // Returns whether rows of this width can be normalized.
  virtual bool Normalizes(int64_t width) const = 0;
  virtual void RowLosses(const RowLossArguments& arguments) = 0;
  virtual void Norm(const NormArguments& arguments) = 0;
  // Returns the gradients of the weight and the bias, float32 [2, C].
  virtual at::Tensor NormGradients(const NormGradientArguments& arguments) = 0;
  // Divides rows as on a device with so many processors, for comparisons; 0: as on the device.
  virtual void UseProcessors(int64_t count) = 0;
};

// Sets the kernels of the process; nullptr: none. Call it before training.
void UseDeviceKernels(std::shared_ptr<DeviceKernels> kernels);

// Returns the kernels that compute with `tensor` in `type`, or nullptr.
DeviceKernels* KernelsFor(const at::Tensor& tensor, at::ScalarType type);

// Computes small losses and norms, and their gradients, with the kernels and with ATen's operators
// on `device`, and compares them. Returns "", or what differs. Waits for the device; draws no
// random number. Leaves the process without kernels.
std::string CompareWithAten(const std::shared_ptr<DeviceKernels>& kernels, c10::Device device);

}  // namespace ddprun::trainer
