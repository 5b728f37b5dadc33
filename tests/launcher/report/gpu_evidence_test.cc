#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>

#include "launcher/report/evidence.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(GpuEvidence, IsWhatTheDriverSaysOfTheGpuWithThatAddress) {
  const NvidiaDriver driver{.version = {},
                            .gpus = {{.name = "Other", .uuid = {}, .bus_id = "00000000:3B:00.0"},
                                     {.name = "Hot GPU",
                                      .uuid = {},
                                      .bus_id = "00000000:5E:00.0",
                                      .memory_bytes = int64_t{80} << 30,
                                      .memory_used = int64_t{79} << 30,
                                      .celsius = 93,
                                      .watts = 690,
                                      .busy_percent = 99}}};
  EXPECT_EQ(ExplainGpu("0000:5e:00.0", driver),
            "0000:5e:00.0: Hot GPU, 80 GiB (79 GiB in use), 93 C, 690 W, 99 % busy");
  EXPECT_THAT(ExplainGpu("0000:aa:00.0", driver),
              StartsWith("0000:aa:00.0: the driver does not list it any more; dmesg"));
  const Error none{.code = Code::kFailed,
                   .title = "NO NVIDIA DRIVER",
                   .where = "",
                   .what = "It does not answer.",
                   .hint = "",
                   .page = "no-gpu"};
  EXPECT_EQ(ExplainGpu("0000:5e:00.0", none), "0000:5e:00.0: It does not answer.");
}

// By the stand-in for the driver's library beside this program (tests/base/fake_nvml.cc).
TEST(GpuEvidence, IsOfThoseThatFailedByThemselves) {
  std::vector<WorkerRecord> workers(5);
  for (WorkerRecord& worker : workers) worker.exit = Signaled{SIGSEGV, false};
  for (size_t i = 0; i < 4; ++i) workers[i].gpu_bus_id = "0000:3b:00.0";
  workers[1].told_to_stop = true;
  workers[2].exit = Exited{0};
  workers[3].gpu_bus_id = "0000:ff:00.0";  // fell off the bus
  Evidence::AddGpus(workers);
  EXPECT_EQ(workers[0].gpu, "0000:3b:00.0: Fake GPU, 80 GiB (1.0 GiB in use), 41 C, 71 W");
  EXPECT_EQ(workers[1].gpu, "");
  EXPECT_EQ(workers[2].gpu, "");
  EXPECT_THAT(workers[3].gpu, HasSubstr("does not list it any more"));
  EXPECT_EQ(workers[4].gpu, "") << "it computed on none";
}

}  // namespace
}  // namespace ddprun::launcher
