#include "trainer/comm/host_process_group.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/host_process_group_parts.h"

namespace ddprun::trainer {
namespace {

// Runs body(group, rank) for every rank, each a thread with a mapping of its own.
void WithGroup(int size, const std::function<void(HostProcessGroup& group, int rank)>& body) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  RunRanks(size, [&](int rank) {
    const auto group = HostProcessGroup::Create(*memory, {.rank = rank, .size = size});
    body(*group, rank);
  });
}

at::Tensor AllReduce(HostProcessGroup& group, at::Tensor tensor, c10d::ReduceOp op) {
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  std::vector<at::Tensor> tensors = {tensor};
  group.allreduce(tensors, options)->wait();
  return tensor;
}

TEST(HostProcessGroup, ReducesEveryTypeAndOperation) {
  WithGroup(3, [](HostProcessGroup& group, int rank) {
    for (const at::ScalarType type :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
      const at::Tensor mine = at::arange(1, 7, at::kLong).to(type) + rank;
      const at::Tensor first = at::arange(1, 7, at::kLong).to(type);
      const auto reduced = [&](c10d::ReduceOp op) { return AllReduce(group, mine.clone(), op); };
      EXPECT_TRUE(at::equal(reduced(c10d::ReduceOp::SUM), first * 3 + 3)) << type;
      EXPECT_TRUE(at::equal(reduced(c10d::ReduceOp::MAX), first + 2)) << type;
      EXPECT_TRUE(at::equal(reduced(c10d::ReduceOp::MIN), first)) << type;
      if (at::isFloatingType(type)) {
        EXPECT_TRUE(at::equal(reduced(c10d::ReduceOp::AVG), first + 1)) << type;
      }
    }
    const at::Tensor product = AllReduce(group, at::full({3}, rank + 2.0), c10d::ReduceOp::PRODUCT);
    EXPECT_TRUE(at::equal(product, at::full({3}, 24.0)));
  });
}

TEST(HostProcessGroup, ReducesTensorsWithGapsInPlace) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    const at::Tensor whole = at::full({4, 6}, rank + 1.0);
    AllReduce(group, whole.slice(1, 1, 6, 2), c10d::ReduceOp::SUM);
    EXPECT_TRUE(at::equal(whole.slice(1, 1, 6, 2), at::full({4, 3}, 3.0)));
    EXPECT_TRUE(at::equal(whole.slice(1, 0, 6, 2), at::full({4, 3}, rank + 1.0)));
  });
}

TEST(HostProcessGroup, ReducesAllocatedTensorsAndTheirViews) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    const at::Tensor flat = group.allocateTensor(100000, at::kFloat);
    EXPECT_TRUE(at::equal(flat, at::zeros({100000})));
    flat.fill_(rank + 1);
    AllReduce(group, flat.narrow(0, 50000, 40000), c10d::ReduceOp::AVG);
    EXPECT_EQ(flat[49999].item<float>(), static_cast<float>(rank + 1));
    EXPECT_EQ(flat[50000].item<float>(), 1.5F);
    EXPECT_EQ(flat[89999].item<float>(), 1.5F);
    EXPECT_EQ(flat[90000].item<float>(), static_cast<float>(rank + 1));
  });
}

TEST(HostProcessGroup, ReadsPartsOfOtherRanksInPlace) {
  static constexpr int64_t kSize = 5 * kPageBytes / sizeof(double);
  WithGroup(3, [](HostProcessGroup& group, int rank) {
    // Heaps that are filled differently.
    const at::Tensor before = group.allocateTensor(10'000 * (rank + 1), at::kFloat);
    const at::Tensor first = PartsInPlace::Allocate(group, kSize, at::kDouble);
    const at::Tensor second = PartsInPlace::Allocate(group, kSize, at::kDouble);
    const at::Tensor all_first = PartsInPlace::Map(group, first);
    const at::Tensor all_second = PartsInPlace::Map(group, second);
    EXPECT_TRUE(at::equal(first, at::zeros({kSize}, at::kDouble)));
    for (int round = 1; round < 4; ++round) {
      first.copy_(at::arange(kSize, at::kDouble)).add_(1e6 * round + 1e5 * rank);
      second.fill_(-rank - round);
      group.barrier()->wait();
      for (int other = 0; other < 3; ++other) {
        const at::Tensor expected = at::arange(kSize, at::kDouble) + (1e6 * round + 1e5 * other);
        EXPECT_TRUE(at::equal(all_first.narrow(0, other * kSize, kSize), expected));
        EXPECT_TRUE(at::equal(all_second.narrow(0, other * kSize, kSize),
                              at::full({kSize}, -other - round, at::kDouble)));
      }
      group.barrier()->wait();
    }
  });
}

TEST(HostProcessGroup, KeepsTheOrderOfBackgroundOperations) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    std::vector<at::Tensor> data;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) {
      data.push_back(at::full({i * 500 + 1}, static_cast<double>(rank + i)));
      std::vector<at::Tensor> tensors = {data.back()};
      c10d::AllreduceOptions options;
      options.asyncOp = i % 7 != 0;
      works.push_back(group.allreduce(tensors, options));
    }
    works[40]->wait();
    EXPECT_TRUE(works[10]->isCompleted());
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(data[static_cast<size_t>(i)][0].item<double>(), 2 * i + 1);
  });
}

TEST(HostProcessGroup, BroadcastsAndGathers) {
  WithGroup(3, [](HostProcessGroup& group, int rank) {
    std::vector<at::Tensor> tensors = {at::full({2, 2}, static_cast<double>(rank))};
    c10d::BroadcastOptions from_two;
    from_two.rootRank = 2;
    group.broadcast(tensors, from_two)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({2, 2}, 2.0)));

    at::Tensor input = at::full({4}, rank, at::kLong);
    at::Tensor output = at::empty({3, 4}, at::kLong);
    group._allgather_base(output, input, {})->wait();
    for (int r = 0; r < 3; ++r) EXPECT_TRUE(at::equal(output[r], at::full({4}, r, at::kLong)));

    std::vector<at::Tensor> inputs = {input};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int r = 0; r < 3; ++r) outputs[0].push_back(at::empty({2, 2}, at::kLong));
    group.allgather(outputs, inputs, {})->wait();
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(at::equal(outputs[0][static_cast<size_t>(r)], at::full({2, 2}, r, at::kLong)));
    }
  });
}

TEST(HostProcessGroup, ThrowsTheErrorOfABackgroundOperationAtWait) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    std::vector<at::Tensor> tensors = {at::zeros({rank + 3})};
    const auto work = group.allreduce(tensors, {});
    try {
      work->wait();
      ADD_FAILURE() << "different sizes were accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "MISMATCHED COLLECTIVES");
    }
  });
}

TEST(HostProcessGroup, RefusesWhatItCannotDo) {
  WithGroup(1, [](HostProcessGroup& group, int) {
    EXPECT_THROW(AllReduce(group, at::zeros({2}, at::kComplexFloat), c10d::ReduceOp::SUM), Failure);
    EXPECT_THROW(AllReduce(group, at::zeros({2}), c10d::ReduceOp::BAND), Failure);
    EXPECT_THROW(AllReduce(group, at::zeros({2}, at::kInt), c10d::ReduceOp::AVG), Failure);
    std::vector<at::Tensor> two = {at::zeros({1}), at::zeros({1})};
    EXPECT_THROW(group.allreduce(two, {}), Failure);
  });
}

// As processes that keep one memory file: left and made anew, and two groups side by side.
TEST(HostProcessGroup, IsMadeAnewInTheSameMemory) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  RunRanks(2, [&](int rank) {
    at::Tensor kept;
    for (int generation = 0; generation < 3; ++generation) {
      const auto group = HostProcessGroup::Create(
          *memory,
          {.rank = rank, .size = 2, .timeout = std::chrono::seconds(60), .generation = generation});
      const at::Tensor own = group->allocateTensor(50'000, at::kFloat);
      EXPECT_TRUE(at::equal(own, at::zeros({50'000})));
      own.fill_(rank + generation);
      AllReduce(*group, own, c10d::ReduceOp::SUM);
      EXPECT_TRUE(at::equal(own, at::full({50'000}, 2 * generation + 1, at::kFloat)));
      std::vector<at::Tensor> message = {at::full({3}, rank + 10.0)};
      group->send(message, 1 - rank, 0)->wait();
      std::vector<at::Tensor> received = {at::zeros({3})};
      group->recv(received, 1 - rank, 0)->wait();
      EXPECT_EQ(received[0][0].item<double>(), 11.0 - rank);
      if (kept.defined()) {
        EXPECT_TRUE(at::equal(kept, at::ones({50'000}))) << "generation " << generation;
      } else {
        kept = own;
      }
    }
  });
}

TEST(HostProcessGroup, IsMadeAnewAfterAWaitThatWasAborted) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  RunRanks(2, [&](int rank) {
    if (rank == 0) {
      const auto group = HostProcessGroup::Create(*memory, {.rank = rank, .size = 2});
      std::vector<at::Tensor> tensors = {at::ones({100'000})};
      const auto work = group->allreduce(tensors, {});
      std::jthread aborting([&] { group->abort(); });
      EXPECT_THROW(work->wait(), Failure);
    }
    const auto group =
        HostProcessGroup::Create(*memory, {.rank = rank, .size = 2, .generation = 1});
    const at::Tensor sum = AllReduce(*group, at::ones({100'000}), c10d::ReduceOp::SUM);
    EXPECT_TRUE(at::equal(sum, at::full({100'000}, 2.0)));
  });
}

TEST(HostProcessGroup, AllocatedTensorsOutliveTheGroup) {
  auto memory = SharedRegion::CreateFile();
  at::Tensor tensor;
  {
    const auto group = HostProcessGroup::Create(*memory, {.rank = 0, .size = 1});
    tensor = group->allocateTensor(10, at::kDouble);
  }
  tensor.fill_(3);
  EXPECT_EQ(tensor.sum().item<double>(), 30);
}

}  // namespace
}  // namespace ddprun::trainer
