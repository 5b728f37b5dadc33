#include "base/nvidia_driver.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// While it lives, sets a variable that the fake library beside this program reads.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(NvidiaDriver, TellsWhatThereIs) {
  const Variable gpus("FAKE_GPUS", "3");
  const Variable split("FAKE_MIG", "1");
  const Result<NvidiaDriver> driver = QueryNvidiaDriver();
  ASSERT_TRUE(driver.has_value()) << driver.error().what;
  EXPECT_EQ(driver->version, "580.65.06");
  EXPECT_EQ(driver->cuda, 13000);
  EXPECT_THAT(driver->without_peer_access, ElementsAre(Pair(0, 2)));
  ASSERT_EQ(driver->gpus.size(), 3);
  const Gpu& first = driver->gpus[0];
  EXPECT_EQ(first.name, "Fake GPU");
  EXPECT_EQ(first.uuid, "GPU-0-beef");
  EXPECT_EQ(first.bus_id, "00000000:3B:00.0");
  EXPECT_EQ(first.memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(first.memory_used, int64_t{1} << 30);
  EXPECT_EQ(first.celsius, 41);
  EXPECT_EQ(first.watts, 71);
  EXPECT_FALSE(first.busy_percent.has_value()) << "the library has no such function";
  EXPECT_FALSE(first.mig);
  EXPECT_TRUE(driver->gpus[2].mig);
  EXPECT_THAT(driver->gpus[2].instances, ElementsAre("MIG-21-cafe", "MIG-22-cafe"));
}

TEST(NvidiaDriver, SaysWhyItDoesNotAnswer) {
  const Variable mismatch("FAKE_NVML_ERROR", "18");
  const Result<NvidiaDriver> driver = QueryNvidiaDriver();
  ASSERT_FALSE(driver.has_value());
  EXPECT_THAT(driver.error().what, HasSubstr("Driver/library version mismatch (NVML error 18)"));
}

TEST(NvidiaDriver, CountsWhatAListShows) {
  const std::vector<Gpu> gpus = {
      {.name = {}, .uuid = "GPU-1111", .bus_id = {}},
      {.name = {}, .uuid = "GPU-1122", .bus_id = {}},
      {.name = {}, .uuid = "GPU-33", .bus_id = {}, .mig = true, .instances = {"MIG-a1", "MIG-a2"}}};
  EXPECT_EQ(CountVisibleGpus(gpus, std::nullopt), 2);
  EXPECT_EQ(CountVisibleGpus({gpus[2]}, std::nullopt), 1) << "CUDA takes the first instance";
  EXPECT_EQ(CountVisibleGpus({}, std::nullopt), 0);
  EXPECT_EQ(CountVisibleGpus(gpus, ""), 0);
  EXPECT_EQ(CountVisibleGpus(gpus, "1, 0"), 2);
  EXPECT_EQ(CountVisibleGpus(gpus, "1,-1,0"), 1);
  EXPECT_EQ(CountVisibleGpus(gpus, "1,3,0"), 1);
  EXPECT_EQ(CountVisibleGpus(gpus, "0,1,0"), 0) << "one that is named twice hides all";
  EXPECT_EQ(CountVisibleGpus(gpus, "GPU-112,GPU-1111"), 2);
  EXPECT_EQ(CountVisibleGpus(gpus, "GPU-11"), 0) << "two have this beginning";
  EXPECT_EQ(CountVisibleGpus(gpus, "GPU-1122,GPU-44,GPU-1111"), 1);
  EXPECT_EQ(CountVisibleGpus(gpus, "MIG-a1,MIG-a2"), 2);
}

}  // namespace
}  // namespace ddprun
