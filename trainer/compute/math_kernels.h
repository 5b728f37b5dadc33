// The kernels of functions such as exp and sqrt, which MKL chooses at the first call.
#pragma once

namespace ddprun::trainer {

// Calls each function of MKL that LibTorch uses for elements once, for float and double. MKL
// chooses its kernel in the first call. If two threads come first together, one of them may compute
// with a kernel of low precision: 6e-5 beside the result was seen for tanh, and only in this call.
// So call it before several threads compute; LibTorch's own threads count, too.
void ChooseMathKernels();

}  // namespace ddprun::trainer
