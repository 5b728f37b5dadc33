#include "launcher/cli/device_count.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

TEST(DeviceCount, CountsDeviceNodesAndNothingElse) {
  const TempFolder folder;
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "sda1"}) {
    folder.File(name);
  }
  EXPECT_EQ(FindDevices(Environment(), folder.path()).gpus.size(), 3);
  EXPECT_EQ(FindDevices(Environment(), folder.path() + "/absent").gpus.size(), 0);
}

TEST(DeviceCount, CountsRenderNodesOfIntelsAsXpus) {
  const TempFolder root;
  const std::string& folder = root.path();
  const std::pair<const char*, const char*> cards[] = {
      {"renderD128", "0x8086\n"}, {"renderD129", "0x10de\n"}, {"card0", "0x8086\n"}};
  for (const auto& [name, vendor] : cards) {
    std::filesystem::create_directories(folder + "/" + name + "/device");
    std::ofstream(folder + "/" + name + "/device/vendor") << vendor;
  }
  EXPECT_EQ(FindDevices(Environment(), "/nowhere", folder).xpus, 1);
  EXPECT_EQ(*CountWorkers("xpu", {.visible_gpus = {}, .xpus = 2}), 2);
  EXPECT_THAT(CountWorkers("xpu", {}).error().what, HasSubstr("Intel"));
}

TEST(DeviceCount, CountsCoresThatItMayKeepBusy) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(FindDevices(Environment()).cores, UsableCores());
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), CPU_COUNT(&mask));
}

TEST(DeviceCount, TakesNumbersAsTheyAre) {
  EXPECT_EQ(*CountWorkers("3", {}), 3);
}

TEST(DeviceCount, PrefersGpusForAuto) {
  EXPECT_EQ(*CountWorkers("auto", {.gpus = std::vector<Gpu>(4), .visible_gpus = {}, .cores = 16}),
            4);
  EXPECT_EQ(*CountWorkers("auto", {.gpus = std::vector<Gpu>(0), .visible_gpus = {}, .cores = 16}),
            16);
  EXPECT_EQ(*CountWorkers("cpu", {.gpus = std::vector<Gpu>(4), .visible_gpus = {}, .cores = 16}),
            16);
}

TEST(DeviceCount, ReadsTheListOfVisibleGpusAsTheDriverDoes) {
  const auto visible = [](const char* list) {
    return *CountWorkers("auto", {.gpus = std::vector<Gpu>(4), .visible_gpus = list, .cores = 99});
  };
  EXPECT_EQ(visible("0,2"), 2);
  EXPECT_EQ(visible("1, 3"), 2);
  EXPECT_EQ(visible("0,9,1"), 1);
  EXPECT_EQ(visible("GPU-8932f937,MIG-5"), 2);
  EXPECT_EQ(visible("-1"), 99);
  EXPECT_EQ(visible(""), 99);
}

TEST(DeviceCount, SaysWhyThereIsNoGpu) {
  const auto none =
      CountWorkers("gpu", {.gpus = std::vector<Gpu>(0), .visible_gpus = {}, .cores = 2});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kUsage);
  EXPECT_THAT(none.error().what, HasSubstr("/dev/nvidia0"));
  const auto hidden =
      CountWorkers("gpu", {.gpus = std::vector<Gpu>(2), .visible_gpus = "7", .cores = 2});
  ASSERT_FALSE(hidden.has_value());
  EXPECT_THAT(hidden.error().what, HasSubstr("CUDA_VISIBLE_DEVICES is \"7\""));
}

}  // namespace
}  // namespace ddprun::launcher
