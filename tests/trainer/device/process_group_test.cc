// Collectives between simulated devices: their results, their stream, their faults.
#include "tests/trainer/device/process_group.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/simulated_device.h"
#include "tests/trainer/device/thrown.h"
#include "tests/trainer/parallel/reducer_fixture.h"

namespace ddprun::simulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using trainer::Random;
using Tensors = std::vector<at::Tensor>;
using Group = c10::intrusive_ptr<SimulatedProcessGroup>;

// Each rank with a device of its own. A rank's error ends what the others wait for.
void WithDevices(int size, const std::function<void(const Group&, c10::Device)>& body) {
  const auto meeting = std::make_shared<Meeting>(size);
  trainer::RunRanks(size, [&](int rank) {
    const c10::DeviceGuard guard(DeviceAt(rank));
    const auto group = c10::make_intrusive<SimulatedProcessGroup>(meeting, rank, rank);
    try {
      body(group, DeviceAt(rank));
    } catch (...) {
      group->abort();
      throw;
    }
    group->shutdown();
  });
  EXPECT_EQ(TakeGroupFaults(), "");
}

TEST(SimulatedProcessGroup, GivesTheBitsOfTheHostGroup) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
    std::array<at::Tensor, 3> expected;
    const auto given = [&](int rank) {
      return Random({7, 5}, static_cast<uint64_t>(rank + 1)).mul_(100).to(type);
    };
    trainer::WithGroup(3, [&](const auto& group, int rank) {
      Tensors tensors = {given(rank)};
      group->allreduce(tensors)->wait();
      expected[static_cast<size_t>(rank)] = tensors[0];
    });
    WithDevices(3, [&](const Group& group, c10::Device device) {
      Tensors tensors = {given(group->getRank()).to(device)};
      {
        const ForbidHostSync forbid;
        group->allreduce(tensors)->wait();
      }
      const AllowHostSync allow;
      EXPECT_TRUE(at::equal(tensors[0].cpu(), expected[static_cast<size_t>(group->getRank())]));
    });
  }
}

TEST(SimulatedProcessGroup, DoesTheOtherCollectives) {
  WithDevices(2, [](const Group& group, c10::Device device) {
    const int rank = group->getRank();
    const auto options = at::TensorOptions(device).dtype(at::kFloat);
    const auto own = [&](at::IntArrayRef values) { return at::tensor(values, options); };
    const auto expect = [](const at::Tensor& actual, at::IntArrayRef values) {
      EXPECT_TRUE(at::equal(actual.cpu(), at::tensor(values, at::kFloat))) << actual.cpu();
    };
    Tensors one = {own({rank + 1, 5})};
    c10d::BroadcastOptions from_last;
    from_last.rootRank = 1;
    group->broadcast(one, from_last)->wait();
    expect(one[0], {2, 5});
    at::Tensor input = own({10 * rank + 1, 10 * rank + 2}), four = at::zeros({4}, options);
    group->_allgather_base(four, input)->wait();
    expect(four, {1, 2, 11, 12});
    std::vector<Tensors> lists = {{at::zeros({2}, options), at::zeros({2}, options)}};
    Tensors inputs = {input};
    group->allgather(lists, inputs)->wait();
    expect(lists[0][1], {11, 12});
    at::Tensor two = at::zeros({2}, options), wide = own({rank, 1, 2, 3});
    group->_reduce_scatter_base(two, wide)->wait();
    expect(two, rank == 0 ? at::IntArrayRef{1, 2} : at::IntArrayRef{4, 6});
    std::vector<int64_t> equal;
    at::Tensor mixed = at::zeros({4}, options), source = own({rank, rank + 2, rank + 4, rank + 6});
    group->alltoall_base(mixed, source, equal, equal)->wait();
    expect(mixed, rank == 0 ? at::IntArrayRef{0, 2, 1, 3} : at::IntArrayRef{4, 6, 5, 7});
    group->barrier()->wait();
    expect(group->allocateTensor(2, options), {0, 0});
  });
}

TEST(SimulatedProcessGroup, BlocksTheStreamAndNotTheHost) {
  const auto group = c10::make_intrusive<SimulatedProcessGroup>(std::make_shared<Meeting>(2), 0, 0);
  Tensors tensors = {at::ones({4}, at::TensorOptions(DeviceAt()))};
  const auto work = group->allreduce(tensors);
  work->wait();  // though the other rank never comes
  EXPECT_FALSE(work->isCompleted());
  const at::Tensor later = tensors[0] + 1;
  EXPECT_FALSE(CurrentStream(0).query());
  group->abort();
  EXPECT_THAT(Thrown([&] { later.cpu(); }),
              AllOf(HasSubstr("asynchronous error of ALLREDUCE 1 on stream"),
                    HasSubstr("rank 0 has aborted the group")));
}

TEST(SimulatedProcessGroup, NamesTheRankThatDoesNotCome) {
  const auto group = c10::make_intrusive<SimulatedProcessGroup>(std::make_shared<Meeting>(2), 0, 0);
  group->setTimeout(std::chrono::milliseconds(50));
  Tensors tensors = {at::ones({4}, at::TensorOptions(DeviceAt()))};
  group->allreduce(tensors)->wait();
  EXPECT_THAT(Thrown([&] { tensors[0].cpu(); }), HasSubstr("rank 1 did not come to ALLREDUCE 1"));
}

TEST(SimulatedProcessGroup, FindsAForgottenWait) {
  WithDevices(2, [](const Group& group, c10::Device device) {
    const Label label("gradients");
    Tensors tensors = {at::ones({4}, at::TensorOptions(device))};
    const auto work = group->allreduce(tensors);
    const std::string name = std::to_string(device.index());
    EXPECT_THAT(Thrown([&] { tensors[0].mul_(2); }),
                AllOf(HasSubstr("data race"), HasSubstr("ALLREDUCE 1 on stream"),
                      HasSubstr("mul.out on the default stream of device " + name),
                      HasSubstr("gradients")));
    work->wait();
    EXPECT_EQ(Thrown([&] { tensors[0].mul_(2); }), "nothing");
  });
}

c10d::AllreduceOptions Synchronous() {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  return options;
}

TEST(SimulatedProcessGroup, RunsSynchronousCollectivesOnTheCurrentStreamWithoutWork) {
  WithDevices(2, [](const Group& group, c10::Device device) {
    const at::TensorOptions options(device);
    Tensors first = {at::ones({4}, options)}, second = {at::ones({3}, options)};
    {
      const ForbidHostSync forbid;
      const auto work = group->allreduce(first);
      EXPECT_EQ(group->allreduce(second, Synchronous()), nullptr);
      second[0].add_(1);
      work->wait();
    }
    EXPECT_EQ(first[0].sum().item<float>(), 8);
    EXPECT_EQ(second[0].sum().item<float>(), 9);
  });
}

TEST(SimulatedProcessGroup, HasMemoryOnceItIsConnected) {
  WithDevices(1, [](const Group& group, c10::Device device) {
    const at::TensorOptions options(device);
    EXPECT_THAT(Thrown([&] { group->allocateTensor(2, options); }),
                HasSubstr("the group has no communicator yet"));
    group->eagerConnectSingleDevice(device);
    EXPECT_EQ(group->allocateTensor(2, options).numel(), 2);
    Tensors gaps = {at::ones({4, 4}, options).t()[0]};
    EXPECT_THAT(Thrown([&] { group->allreduce(gaps); }), HasSubstr("takes contiguous tensors"));
  });
}

// On a real device, ranks whose calls differ would wait for ever or get wrong numbers.
TEST(SimulatedProcessGroup, NamesRanksThatDoNotAgree) {
  const auto told = [](const std::function<void(const Group&, c10::Device)>& begin) {
    std::array<std::string, 2> errors;
    WithDevices(2, [&](const Group& group, c10::Device device) {
      group->eagerConnectSingleDevice(device);
      errors.at(static_cast<size_t>(group->getRank())) = Thrown([&] {
        begin(group, device);
        SynchronizeDevice(device.index());
      });
      group->abort();
    });
    return errors[0] + errors[1];
  };
  EXPECT_THAT(told([](const Group& group, c10::Device device) {
                Tensors tensors = {at::ones({4 + group->getRank()}, at::TensorOptions(device))};
                group->allreduce(tensors, Synchronous());
              }),
              AllOf(HasSubstr("of 4 Float"), HasSubstr("of 5 Float")));
  EXPECT_THAT(told([](const Group& group, c10::Device device) {
                const c10::StreamGuard stream(StreamFromPool(device.index()));
                Tensors tensors = {at::ones({4}, at::TensorOptions(device))};
                if (group->getRank() == 0) {
                  group->allreduce(tensors, Synchronous());
                  return;
                }
                const auto graph = MakeGraph(device);
                graph->Begin();
                group->allreduce(tensors, Synchronous());
                graph->End();
                graph->Replay();
                SynchronizeDevice(device.index());
              }),
              HasSubstr("in a graph"));
}

// Each rank sends `own` to the other one, over the group of its direction.
at::Tensor Swapped(const Group& up, const Group& down, const at::Tensor& own) {
  const int other = 1 - up->getRank();
  Tensors sent = {own}, got = {at::zeros_like(own)};
  (other == 1 ? up : down)->send(sent, other, 0);
  const auto received = (other == 1 ? down : up)->recv(got, other, 0);
  EXPECT_THAT(Thrown([&] { got[0].add_(1); }), HasSubstr("data race"));
  received->wait();
  return got[0];
}

TEST(SimulatedProcessGroup, SendsBothWaysAtOnceOverTwoGroups) {
  const auto down_meeting = std::make_shared<Meeting>(2);
  WithDevices(2, [&](const Group& up, c10::Device device) {
    const int rank = up->getRank();
    const auto down = c10::make_intrusive<SimulatedProcessGroup>(down_meeting, rank, rank);
    at::Tensor got;
    {
      const ForbidHostSync forbid;
      got = Swapped(up, down, at::full({3}, rank + 5, at::TensorOptions(device)));
    }
    EXPECT_EQ(got.sum().item<float>(), 3 * (6 - rank));
    down->shutdown();
  });
}

TEST(SimulatedProcessGroup, NamesRanksThatBothSendFirst) {
  std::array<std::string, 2> errors;
  WithDevices(2, [&](const Group& group, c10::Device device) {
    errors.at(static_cast<size_t>(group->getRank())) = Thrown([&] {
      Swapped(group, group, at::ones({3}, at::TensorOptions(device)));
      SynchronizeDevice(device.index());
    });
    group->abort();
  });
  EXPECT_THAT(errors[0] + errors[1],
              AllOf(HasSubstr("MESSAGE from 0 to 1"), HasSubstr("MESSAGE from 1 to 0")));
}

TEST(SimulatedProcessGroup, SaysWhatItIsLeftWith) {
  const c10::Device device = DeviceAt();
  const auto make = [&] {
    const auto group =
        c10::make_intrusive<SimulatedProcessGroup>(std::make_shared<Meeting>(1), 0, 0);
    group->eagerConnectSingleDevice(device);
    return group;
  };
  Tensors tensors = {at::ones({4}, at::TensorOptions(device))};
  make()->allreduce(tensors);
  EXPECT_EQ(TakeGroupFaults(),
            "nobody has waited for ALLREDUCE 1 of rank 0\nrank 0 has not shut its group down\n");
  const auto group = make();
  const c10::StreamGuard stream(StreamFromPool(0));
  tensors = {at::ones({4}, at::TensorOptions(device))};
  const auto graph = MakeGraph(device);
  graph->Begin();
  group->allreduce(tensors, Synchronous());
  graph->End();
  group->shutdown();
  EXPECT_EQ(TakeGroupFaults(), "rank 0 shuts its group down while a graph uses it\n");
  EXPECT_THAT(Thrown([&] { group->allreduce(tensors); }),
              HasSubstr("after the group was shut down"));
}

}  // namespace
}  // namespace ddprun::simulated
