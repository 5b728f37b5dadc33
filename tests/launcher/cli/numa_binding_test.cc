#include "launcher/cli/numa_binding.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A machine in files: two sockets of two NUMA nodes with four CPUs each; CPUs 2k and 2k+1 share a
// core; node 0 has two caches, the others one.
class FakeMachine : public testing::Test {
 protected:
  FakeMachine() {
    Write("sys/devices/system/node/possible", "0-3");
    for (int node = 0; node < 4; ++node) {
      const std::string first = std::to_string(4 * node);
      const std::string last = std::to_string(4 * node + 3);
      Write("sys/devices/system/node/node" + std::to_string(node) + "/cpulist", first + "-" + last);
    }
    for (int cpu = 0; cpu < 16; ++cpu) WriteCpu(cpu);
  }
  ~FakeMachine() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text << "\n";
  }

  void AddGpu(const std::string& address, const std::string& uuid, int node) {
    Write("proc/driver/nvidia/gpus/" + address + "/information",
          "Model: \t x\nGPU UUID: \t " + uuid);
    Write("sys/bus/pci/devices/" + address + "/numa_node", std::to_string(node));
  }

  CpuTopology Read(const CpuSet& allowed = ParseCpuList("0-15"), const Environment& env = {}) {
    return ReadCpuTopology(env, allowed, root_);
  }

  std::vector<std::string> Bound(std::string_view mode, int workers, const CpuTopology& topology) {
    const auto sets = BindWorkers(mode, workers, topology);
    EXPECT_TRUE(sets.has_value()) << Render(sets.error());
    std::vector<std::string> lists;
    if (!sets) return lists;
    for (const CpuSet& cpus : *sets) lists.push_back(FormatCpuList(cpus));
    return lists;
  }

 private:
  void WriteCpu(int cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const int core = cpu / 2 * 2;
    Write(folder + "/topology/thread_siblings_list",
          std::to_string(core) + "-" + std::to_string(core + 1));
    Write(folder + "/topology/physical_package_id", std::to_string(cpu / 8));
    Write(folder + "/cache/index0/type", "Instruction");
    Write(folder + "/cache/index0/level", "9");
    Write(folder + "/cache/index0/shared_cpu_list", std::to_string(cpu));
    Write(folder + "/cache/index1/type", "Unified");
    Write(folder + "/cache/index1/level", "3");
    const int size = cpu < 4 ? 2 : 4;
    const int first = cpu / size * size;
    Write(folder + "/cache/index1/shared_cpu_list",
          std::to_string(first) + "-" + std::to_string(first + size - 1));
  }

  const std::string root_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(FakeMachine, GivesWorkersWithoutGpusTheNodesInTurn) {
  EXPECT_THAT(Bound("node", 5, Read()), ElementsAre("0-3", "4-7", "8-11", "12-15", "0-3"));
}

TEST_F(FakeMachine, GivesAWorkerTheNodeOfItsGpu) {
  AddGpu("0000:05:00.0", "GPU-aa", 2);
  AddGpu("0000:04:00.0", "GPU-bb", 1);
  AddGpu("0001:00:00.0", "GPU-cc", -1);
  EXPECT_THAT(Bound("node", 3, Read()), ElementsAre("4-7", "8-11", "0-3"));
  const Environment env(Environment::Variables{{"CUDA_VISIBLE_DEVICES", "GPU-cc,1"}});
  EXPECT_THAT(Bound("node", 2, Read(ParseCpuList("0-15"), env)), ElementsAre("0-3", "8-11"));
}

TEST_F(FakeMachine, GivesASocketAllItsNodes) {
  EXPECT_THAT(Bound("socket", 3, Read()), ElementsAre("0-7", "0-7", "8-15"));
}

TEST_F(FakeMachine, DividesTheCoresOfANodeAmongItsWorkers) {
  AddGpu("0000:04:00.0", "GPU-aa", 1);
  AddGpu("0000:05:00.0", "GPU-bb", 1);
  EXPECT_THAT(Bound("exclusive", 2, Read()), ElementsAre("4-5", "6-7"));
  EXPECT_THAT(BindWorkers("exclusive", 3, Read()).error().what,
              HasSubstr("NUMA node 1 has 2 cores for 3 workers"));
}

TEST_F(FakeMachine, GivesTheFirstWorkersTheCoresThatAreLeftOver) {
  Write("sys/devices/system/node/possible", "0");
  Write("sys/devices/system/node/node0/cpulist", "0-9");
  EXPECT_THAT(Bound("exclusive", 3, Read()), ElementsAre("0-3", "4-7", "8-9"));
}

TEST_F(FakeMachine, GivesEachWorkerACacheTheLargestFirst) {
  AddGpu("0000:04:00.0", "GPU-aa", 0);
  AddGpu("0000:05:00.0", "GPU-bb", 0);
  AddGpu("0000:06:00.0", "GPU-cc", 0);
  EXPECT_THAT(Bound("core-complex", 3, Read()), ElementsAre("0-1", "2-3", "0-1"));
  EXPECT_THAT(Bound("core-complex", 2, Read(ParseCpuList("0,2-15"))), ElementsAre("2-3", "0"));
}

TEST_F(FakeMachine, KeepsToTheCpusThatAreAllowed) {
  EXPECT_THAT(Bound("node", 3, Read(ParseCpuList("1,8-9"))), ElementsAre("1", "8-9", "1"));
  AddGpu("0000:04:00.0", "GPU-aa", 3);
  EXPECT_THAT(BindWorkers("node", 1, Read(ParseCpuList("1,8-9"))).error().what,
              HasSubstr("NUMA node 3, none of whose CPUs"));
}

TEST(NumaBinding, TakesAKernelThatTellsNothingForOneNode) {
  const CpuTopology topology = ReadCpuTopology({}, {0, 5}, "/nowhere");
  for (const char* mode : {"node", "socket", "core-complex"}) {
    const auto sets = BindWorkers(mode, 1, topology);
    ASSERT_TRUE(sets.has_value()) << mode;
    EXPECT_THAT((*sets)[0], ElementsAre(0, 5)) << mode;
  }
}

}  // namespace
}  // namespace ddprun::launcher
