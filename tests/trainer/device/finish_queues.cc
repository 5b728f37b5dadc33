// Waits for all that tests have left in the queues of the simulated device, before the program
// ends. Their threads would go on while LibTorch is taken down, and crash. A test leaves work there
// if it expects an error of the host, which no wait for the device follows.
#include <gtest/gtest.h>

#include "tests/trainer/device/stream.h"
#include "tests/trainer/device/thrown.h"

namespace ddprun::simulated {
namespace {

class FinishQueues final : public testing::Environment {
 public:
  void TearDown() override {
    for (int device = 0; device < kDevices; ++device) {
      // An error that no test has waited for is none of a test.
      Thrown([device] { SynchronizeDevice(device); });
    }
  }
};

const testing::Environment* const kAdded = testing::AddGlobalTestEnvironment(new FinishQueues);

}  // namespace
}  // namespace ddprun::simulated
