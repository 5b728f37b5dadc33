#include "trainer/comm/kept_memory.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "trainer/comm/shared_region.h"

namespace ddprun::trainer {
namespace {

constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();

using Tensors = std::vector<at::Tensor>;

// Tensors of several types and sizes, all of whose elements are `value`.
Tensors Filled(double value, int64_t size = 1000) {
  return {at::full({size}, value, at::kFloat), at::full({0}, value, at::kFloat),
          at::full({3, 5}, value, at::kDouble), at::full({7}, value, at::kBFloat16)};
}

// Returns the common value of all elements, or -1 if there is none.
double ValueOf(const Tensors& tensors) {
  const double value = tensors[0][0].item<double>();
  for (const at::Tensor& tensor : tensors) {
    if (!at::equal(tensor, at::full_like(tensor, value))) return -1;
  }
  return value;
}

class KeptMemoryTest : public testing::Test {
 protected:
  c10::intrusive_ptr<HostProcessGroup> Group(int generation = 0) const {
    return HostProcessGroup::Create(file_, {.rank = 0, .size = 1, .generation = generation});
  }
  static double TakenBack(KeptMemory& memory, int64_t version, int64_t size = 1000) {
    const Tensors tensors = Filled(-2, size);
    memory.TakeBack(version, tensors);
    return ValueOf(tensors);
  }

  const UniqueFd file_ = std::move(SharedRegion::CreateFile()).value();
};

TEST_F(KeptMemoryTest, HasTheLastTwoVersions) {
  const auto group = Group();
  KeptMemory memory(*group, /*forgets=*/true);
  for (int version = 1; version < 6; ++version) {
    memory.Keep(version, Filled(version));
    EXPECT_EQ(TakenBack(memory, version), version);
    EXPECT_EQ(TakenBack(memory, kNewest), version);
    EXPECT_EQ(TakenBack(memory, std::max(1, version - 1)), std::max(1, version - 1));
  }
}

TEST_F(KeptMemoryTest, VersionsMayBeLeftOut) {
  const auto group = Group();
  KeptMemory memory(*group, /*forgets=*/true);
  memory.Keep(3, Filled(3));
  memory.Keep(9, Filled(9));
  EXPECT_EQ(TakenBack(memory, 8), 3);
  memory.Keep(20, Filled(20));
  EXPECT_EQ(TakenBack(memory, 19), 9);
}

TEST_F(KeptMemoryTest, AFailedVersionIsReplaced) {
  const auto group = Group();
  KeptMemory memory(*group, /*forgets=*/true);
  memory.Keep(1, Filled(1));
  for (const double value : {20, 21, 22}) {
    memory.Keep(2, Filled(value));
    EXPECT_EQ(TakenBack(memory, 1), 1);
    EXPECT_EQ(TakenBack(memory, 2), value);
  }
}

TEST_F(KeptMemoryTest, GrowsAndShrinks) {
  const auto group = Group();
  KeptMemory memory(*group, /*forgets=*/true);
  int64_t version = 0;
  for (const int64_t size : {10, 100'000, 5, 3'000'000, 3'000'000}) {
    ++version;
    memory.Keep(version, Filled(static_cast<double>(version), size));
    EXPECT_EQ(TakenBack(memory, version, size), version);
  }
}

TEST_F(KeptMemoryTest, AnotherGenerationFindsIt) {
  {
    const auto group = Group();
    KeptMemory(*group, /*forgets=*/true).Keep(4, Filled(4));
  }
  const auto group = Group(/*generation=*/7);
  group->FreeOldGenerations();
  KeptMemory memory(*group, /*forgets=*/false);
  EXPECT_EQ(TakenBack(memory, 4), 4);
  EXPECT_THROW(TakenBack(memory, 3), Failure);
  EXPECT_THROW(TakenBack(memory, 4, /*size=*/2000), Failure);
  EXPECT_THROW(TakenBack(*std::make_unique<KeptMemory>(*group, /*forgets=*/true), 4), Failure);
}

TEST_F(KeptMemoryTest, RanksHaveTheirOwn) {
  const auto memory_of = [&](int rank) {
    const auto group = HostProcessGroup::Create(file_, {.rank = rank, .size = 2});
    return std::make_unique<KeptMemory>(*group, /*forgets=*/true);
  };
  const auto first = memory_of(0);
  const auto second = memory_of(1);
  first->Keep(1, Filled(10));
  second->Keep(1, Filled(11));
  EXPECT_EQ(TakenBack(*first, 1), 10);
  EXPECT_EQ(TakenBack(*second, 1), 11);
}

// A process is killed at any moment of Keep(). Its last whole version is there, and whole.
TEST_F(KeptMemoryTest, OutlivesAKilledProcess) {
  std::mt19937 draw(0);
  std::uniform_int_distribution<int> microseconds(0, 5000);
  int64_t version = 1;
  const auto group = Group();
  KeptMemory memory(*group, /*forgets=*/true);
  memory.Keep(version, Filled(static_cast<double>(version)));
  for (int round = 0; round < 100; ++round) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (int64_t next = version + 1;; ++next) {
        memory.Keep(next, Filled(static_cast<double>(next)));
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(draw)));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    const double found = TakenBack(memory, kNewest);
    ASSERT_GE(found, static_cast<double>(version));
    version = static_cast<int64_t>(found);
  }
  EXPECT_GT(version, 100);
}

}  // namespace
}  // namespace ddprun::trainer
