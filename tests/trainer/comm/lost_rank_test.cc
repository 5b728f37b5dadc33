// A rank that is killed: all others end in the same operation, and go on with another one.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "base/failure.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {
namespace {

constexpr int kThree = 3;
constexpr int kVictim = 2;

void Nap(uint64_t draw) {
  std::this_thread::sleep_for(std::chrono::microseconds(draw % 4 * 700));
}

// Returns the operation in which each rank fails, or -1. The victim is in the operations before
// `last`, and if `meets`, it comes to the first of the two meetings of `last`.
std::vector<int> EndOf(int last, bool large, bool meets, uint32_t seed) {
  const UniqueFd recorders = *CreateFlightRecorderFile(kThree);
  const UniqueFd memory = *SharedRegion::CreateFile();
  const auto region = *SharedRegion::Map(memory, kThree);
  std::vector<int> ends(kThree, -1);
  RunRanks(kThree, [&](int rank) {
    std::mt19937 draw(seed + static_cast<uint32_t>(rank));
    const auto recorder = *FlightRecorder::Attach(recorders, rank, rank);
    NodeGroup group(*region,
                    {.rank = rank, .recorder = recorder.get(), .losses = {recorder.get(), 0}});
    std::vector<float> data(large ? 100'000 : 100, 1.0F);
    for (int i = 0; i < 8; ++i) {
      Nap(draw());
      if (rank == kVictim && i == last) break;
      const Status done = group.AllReduce(data.data(), data.size(), DataType::kFloat32,
                                          Reduction::kMax, Clock::now() + std::chrono::seconds(30));
      if (done.ok()) continue;
      EXPECT_EQ(done.error().code, Code::kRankLost);
      ends[static_cast<size_t>(rank)] = i;
      break;  // no rank uses the memory again in this generation
    }
    if (rank != kVictim) return;
    if (meets) {
      ControlBlock& first = region->control(0);
      ControlBlock& own = region->control(kVictim);
      const uint32_t arrived = own.arrived + 1;
      while (!HasReached(first.arrived, arrived)) Nap(1);
      own.headers[(last + 1) % 2] = first.headers[(last + 1) % 2];
      AdvanceAndWake(own.arrived, own.sleepers, arrived);
    }
    Nap(draw());
    EXPECT_TRUE(MarkLost(recorders, kVictim, 1).ok());
  });
  return ends;
}

TEST(LostRank, EndsTheSameOperationOnAllOthers) {
  for (int round = 0; round < 60; ++round) {
    const int last = round % 6;
    const bool large = round % 2 == 1;
    const bool meets = large && round % 3 == 0;
    const std::vector<int> ends = EndOf(last, large, meets, static_cast<uint32_t>(round * 10));
    EXPECT_EQ(ends[0], last) << "round " << round;
    EXPECT_EQ(ends[1], last) << "round " << round;
  }
}

// If a rank has finished an operation and then dies, the other ranks must finish it, too.
TEST(LostRank, LeavesToTheOthersWhatItHasBeenIn) {
  for (uint32_t round = 0; round < 20; ++round) {
    const std::vector<int> ends = EndOf(8, round % 2 == 1, false, round);
    EXPECT_EQ(ends, std::vector<int>(kThree, -1));
  }
}

TEST(LostRank, IsReplacedAgainAndAgainInTheSameMemory) {
  const UniqueFd recorders = *CreateFlightRecorderFile(kThree);
  const UniqueFd memory = *SharedRegion::CreateFile();
  constexpr int kLosses = 6;
  std::vector<int64_t> blocks;
  const auto create = [&](int rank, int generation) {
    return HostProcessGroup::Create(memory,
                                    {.rank = rank,
                                     .size = kThree,
                                     .timeout = std::chrono::seconds(60),
                                     .generation = generation,
                                     .recorder = *FlightRecorder::Attach(recorders, rank, rank)});
  };
  constexpr int64_t kElements = 200'000;
  constexpr int64_t kBlocks = kElements * 4 / 512;  // of a tensor
  std::vector<at::Tensor> kept;                     // by processes that would just be gone
  const auto sum = [&](HostProcessGroup& group, double own) {
    // In memory of the group, so that the end of that shows, too.
    at::Tensor tensor = group.allocateTensor(kElements, at::kFloat);
    std::vector<at::Tensor> tensors = {tensor.fill_(own)};
    if (own == 3) kept.push_back(tensor);
    group.allreduce(tensors)->wait();
    return tensor[0].item<double>();
  };
  RunRanks(kThree, [&](int rank) {
    if (rank == kVictim) {
      for (int generation = 0; generation <= kLosses; ++generation) {
        const auto group = create(rank, generation);
        EXPECT_EQ(sum(*group, 3), 6);
        // Its process would just be gone: without leaving the memory.
        if (generation < kLosses) {
          EXPECT_TRUE(MarkLost(recorders, kVictim, generation + 1).ok());
          static std::vector<c10::intrusive_ptr<HostProcessGroup>> gone;
          gone.push_back(group);
        }
      }
      return;
    }
    const auto group = create(rank, 0);
    for (int generation = 0; generation <= kLosses; ++generation) {
      EXPECT_EQ(group->generation(), generation);
      EXPECT_EQ(sum(*group, rank + 1), 6);
      struct stat status = {};
      group->FreeOldGenerations();
      EXPECT_EQ(fstat(memory.get(), &status), 0);
      if (rank == 0) blocks.push_back(status.st_blocks);
      if (generation == kLosses) break;
      EXPECT_THROW(sum(*group, rank + 1), Failure);
      group->Renew();
    }
  });
  // In this generation each rank may have memory or not.
  EXPECT_LT(blocks.back(), blocks.front() + 4 * kBlocks);
}

// Three ranks with tensors in the memory that they share, who sum them in steps.
struct Steps {
  static constexpr int64_t kElements = 60'000;
  const UniqueFd recorders = *CreateFlightRecorderFile(kThree);
  const UniqueFd memory = *SharedRegion::CreateFile();

  struct Member {
    c10::intrusive_ptr<HostProcessGroup> group;
    std::vector<at::Tensor> tensors = {};
  };
  Member Make(int rank, int generation) const {
    Member member{HostProcessGroup::Create(
        memory, {.rank = rank,
                 .size = kThree,
                 .timeout = std::chrono::seconds(60),
                 .generation = generation,
                 .recorder = *FlightRecorder::Attach(recorders, rank, rank)})};
    for (int i = 0; i < 3; ++i) {
      member.tensors.push_back(member.group->allocateTensor(kElements, at::kFloat));
    }
    return member;
  }
  // Some sums in the background, then one that ends the step.
  static void Run(Member& member, const std::function<void()>& before_each) {
    const int rank = member.group->getRank();
    std::vector<HostProcessGroup::Work> sums;
    for (at::Tensor& tensor : member.tensors) {
      before_each();
      std::vector<at::Tensor> tensors = {tensor.fill_(rank + 1)};
      sums.push_back(member.group->allreduce(tensors));
    }
    for (const auto& sum : sums) sum->wait();
    member.group->barrier()->wait();
    for (const at::Tensor& tensor : member.tensors) {
      EXPECT_TRUE(tensor.eq(6).all().item<bool>()) << "rank " << rank;
    }
  }
};

// The first rank looks before each sum whether one is lost, and then does not come to it; the
// second one may be waiting there. Both keep the memory that they sum in.
TEST(LostRank, MayBeSeenBeforeAnOperationBySomeOfTheOthers) {
  constexpr int kLosses = 4;
  const auto live = [](const Steps& steps, int rank, const std::function<void()>& nap) {
    Steps::Member member = steps.Make(rank, 0);
    const auto look = [&] {
      nap();
      if (rank == 0) member.group->CheckRanks();
    };
    for (int done = 0; done <= kLosses;) {
      try {
        member.group->barrier()->wait();  // after this, no rank uses the tensors
        for (; done <= kLosses; ++done) {
          Steps::Run(member, look);
          member.group->FreeOldGenerations();
        }
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.error().code, Code::kRankLost);
        member.group->Renew();
      }
    }
  };
  const auto die = [](const Steps& steps, std::mt19937& draw, const std::function<void()>& nap) {
    std::vector<Steps::Member> gone;  // without leaving the memory
    for (int generation = 0; generation <= kLosses; ++generation) {
      Steps::Member& member = gone.emplace_back(steps.Make(kVictim, generation));
      member.group->barrier()->wait();
      Steps::Run(member, nap);
      if (generation == kLosses) return;
      std::vector<at::Tensor> first = {member.tensors[0].fill_(kVictim + 1)};
      if (draw() % 2 == 0) member.group->allreduce(first)->wait();  // of the next step
      nap();
      EXPECT_TRUE(MarkLost(steps.recorders, kVictim, generation + 1).ok());
    }
  };
  for (uint32_t round = 0; round < 25; ++round) {
    const Steps steps;
    RunRanks(kThree, [&](int rank) {
      std::mt19937 draw(round * 10 + static_cast<uint32_t>(rank));
      const auto nap = [&] { Nap(draw()); };
      rank == kVictim ? die(steps, draw, nap) : live(steps, rank, nap);
    });
  }
}

// Rank 2 gives, rank 0 takes, and rank 1 takes no part.
TEST(Stream, GivesToThoseThatTakeAndNobodyElse) {
  constexpr size_t kLong = (size_t{9} << 20) + 5;
  const UniqueFd memory = *SharedRegion::CreateFile();
  for (const size_t size : {size_t{0}, size_t{7}, size_t{4} << 20, kLong}) {
    RunRanks(kThree, [&](int rank) {
      const auto group = HostProcessGroup::Create(
          memory, {.rank = rank, .size = kThree, .timeout = std::chrono::seconds(60)});
      for (int round = 0; round < 3; ++round) {
        std::vector<char> one(size, static_cast<char>(rank));
        int64_t number = rank * 10 + round;
        group->Stream(kVictim, rank == 0, [&](const HostProcessGroup::PassBytes& pass) {
          pass(&number, sizeof number);
          pass(one.data(), one.size());
          pass(&number, sizeof number);
        });
        const int expected = rank == 1 ? 1 : kVictim;
        EXPECT_EQ(number, expected * 10 + round);
        EXPECT_EQ(one, std::vector<char>(size, static_cast<char>(expected)));
      }
    });
  }
}

TEST(Stream, EndsWhereARankIsLost) {
  for (const int victim : {0, 1, 2}) {
    const UniqueFd recorders = *CreateFlightRecorderFile(kThree);
    const UniqueFd memory = *SharedRegion::CreateFile();
    RunRanks(kThree, [&](int rank) {
      const auto group = HostProcessGroup::Create(
          memory, {.rank = rank,
                   .size = kThree,
                   .timeout = std::chrono::seconds(60),
                   .recorder = *FlightRecorder::Attach(recorders, rank, rank)});
      if (rank == victim) {
        EXPECT_TRUE(MarkLost(recorders, victim, 1).ok());
        return;
      }
      std::vector<char> bytes(size_t{9} << 20);
      EXPECT_THROW(
          group->Stream(2, rank == 0, [&](const auto& pass) { pass(bytes.data(), bytes.size()); }),
          Failure);
    });
  }
}

}  // namespace
}  // namespace ddprun::trainer
