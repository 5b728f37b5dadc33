// A pickle as in files of torch.save: what is read from it and written again reads to the same, or
// it is refused with a reason.
#include <string>

#include "fuzz/input.h"
#include "trainer/state/torch_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun;
  const auto state = trainer::ReadPickledState(fuzz::Input(data, size).Rest());
  if (!state.has_value()) {
    fuzz::Require(!state.error().what.empty());
    return 0;
  }
  // By their bytes: numbers may be NaN.
  const std::string written = trainer::WritePickledState(state->values);
  const auto again = trainer::ReadPickledState(written);
  fuzz::Require(again.has_value() && trainer::WritePickledState(again->values) == written);
  return 0;
}
