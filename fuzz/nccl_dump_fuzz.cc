// A dump of PyTorch's flight recorder: it is read, or refused with a reason.
#include "fuzz/input.h"
#include "launcher/nccl/nccl_dump.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun;
  const auto dump = launcher::ParseNcclDump(fuzz::Input(data, size).Rest(), 0);
  if (!dump.has_value()) fuzz::Require(!dump.error().what.empty());
  return 0;
}
