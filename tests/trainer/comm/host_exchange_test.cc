#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <future>

#include "base/failure.h"
#include "base/flight_reader.h"
#include "tests/trainer/comm/rank_threads.h"
#include "trainer/comm/host_process_group.h"

namespace ddprun::trainer {
namespace {

using Tensors = std::vector<at::Tensor>;

// Runs body(group, rank) for every rank, each a thread with a mapping of its own.
void WithGroup(int size, const std::function<void(HostProcessGroup& group, int rank)>& body) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  RunRanks(size, [&](int rank) {
    const auto group = HostProcessGroup::Create(*memory, {.rank = rank, .size = size});
    body(*group, rank);
  });
}

at::Tensor Whole(at::IntArrayRef shape, int first) {
  return (at::arange(first, first + c10::multiply_integers(shape), at::kFloat)).view(shape);
}

TEST(HostExchange, ScattersAndGathersListsOfTensorsWithGaps) {
  WithGroup(3, [](HostProcessGroup& group, int rank) {
    at::Tensor room = at::zeros({4, 2});
    Tensors outputs = {room.t()};  // has gaps
    std::vector<Tensors> inputs;
    if (rank == 1) inputs = {{Whole({2, 4}, 0), Whole({2, 4}, 100), Whole({2, 4}, 200)}};
    c10d::ScatterOptions scatter;
    scatter.rootRank = 1;
    group.scatter(outputs, inputs, scatter)->wait();
    EXPECT_TRUE(at::equal(room.t(), Whole({2, 4}, rank * 100)));

    std::vector<Tensors> gathered;
    if (rank == 2) gathered = {{at::zeros({2, 4}), at::zeros({4, 2}).t(), at::zeros({2, 4})}};
    c10d::GatherOptions gather;
    gather.rootRank = 2;
    group.gather(gathered, outputs, gather)->wait();
    for (int from = 0; rank == 2 && from < 3; ++from) {
      EXPECT_TRUE(at::equal(gathered[0][static_cast<size_t>(from)], Whole({2, 4}, from * 100)));
    }
  });
}

TEST(HostExchange, ReduceScattersListsAndFlatTensors) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    const at::Tensor expected = Whole({3}, 10 * rank) * 2 + 1;
    Tensors outputs = {at::zeros({3})};
    std::vector<Tensors> inputs = {{Whole({3}, 0) + rank, Whole({3}, 10) + rank}};
    group.reduce_scatter(outputs, inputs, {})->wait();
    EXPECT_TRUE(at::equal(outputs[0], expected));
    at::Tensor output = at::zeros({3});
    at::Tensor input = at::cat(inputs[0]);
    group._reduce_scatter_base(output, input, {})->wait();
    EXPECT_TRUE(at::equal(output, expected));
  });
}

TEST(HostExchange, ExchangesRowsBySplits) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    // Rank 0 keeps one row and sends two; rank 1 sends none and keeps two.
    std::vector<int64_t> in = rank == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{0, 2};
    std::vector<int64_t> out = rank == 0 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{2, 2};
    at::Tensor input = Whole({rank == 0 ? 3 : 2, 5}, rank * 100);
    at::Tensor output = at::zeros({rank == 0 ? 1 : 4, 5});
    group.alltoall_base(output, input, out, in, {})->wait();
    const at::Tensor first = Whole({3, 5}, 0);
    const at::Tensor expected =
        rank == 0 ? first.slice(0, 0, 1) : at::cat({first.slice(0, 1), Whole({2, 5}, 100)});
    EXPECT_TRUE(at::equal(output, expected));
  });
}

TEST(HostExchange, ReducesToTheRootAlsoATensorWithGaps) {
  WithGroup(3, [](HostProcessGroup& group, int rank) {
    const at::Tensor before = at::full({2, 3}, rank + 1, at::kFloat).t();
    Tensors tensors = {before.clone(at::MemoryFormat::Preserve)};
    c10d::ReduceOptions options;
    options.rootRank = 2;
    options.reduceOp = c10d::ReduceOp::PRODUCT;
    group.reduce(tensors, options)->wait();
    EXPECT_TRUE(at::equal(tensors[0], rank == 2 ? at::full({3, 2}, 6.0F) : before));
  });
}

TEST(HostExchange, AWorkOutlivesItsGroup) {
  auto memory = SharedRegion::CreateFile();
  ASSERT_TRUE(memory.has_value());
  auto group = HostProcessGroup::Create(*memory, {.rank = 0, .size = 2});
  Tensors tensors = {at::ones({4})};
  const auto work = group->allreduce(tensors, {});
  const auto message = group->recv(tensors, 1, 0);
  group.reset();  // rank 1 never came
  EXPECT_THROW(work->wait(), Failure);
  EXPECT_THROW(message->wait(), Failure);
}

TEST(HostExchange, MessagesArriveInTensorsWithGaps) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    Tensors sent = {Whole({3, 4}, rank * 100).t()};
    at::Tensor room = at::zeros({3, 4});
    Tensors received = {room.t()};
    const auto receive = group.recvAnysource(received, 4);
    const auto send = group.send(sent, 1 - rank, 4);
    receive->wait();
    send->wait();
    EXPECT_EQ(receive->sourceRank(), 1 - rank);
    EXPECT_TRUE(at::equal(room, Whole({3, 4}, (1 - rank) * 100)));
  });
}

TEST(HostExchange, ReceivedIsCompleteOnceItSaysSo) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    Tensors tensors = {at::full({100, 3}, rank, at::kFloat).t()};
    if (rank == 0) {
      group.send(tensors, 1, 0)->wait();
      return;
    }
    const auto receive = group.recv(tensors, 0, 0);
    while (!receive->isCompleted()) std::this_thread::yield();
    EXPECT_TRUE(receive->isSuccess());
    EXPECT_TRUE(at::equal(tensors[0], at::zeros({3, 100})));
  });
}

TEST(HostExchange, NewGroupsOfTheRowsAndColumnsOfAMesh) {
  WithGroup(4, [](HostProcessGroup& group, int rank) {
    const int row = rank / 2;
    const int column = rank % 2;
    const auto sum = [](HostProcessGroup& part, float value) {
      Tensors tensors = {at::full({1}, value)};
      part.allreduce(tensors, {})->wait();
      return tensors[0].item<float>();
    };
    const auto of_row = group.NewGroup({row * 2, row * 2 + 1});
    const auto of_column = group.NewGroup({column + 2, column});  // in another order
    EXPECT_EQ(of_row->getRank(), column);
    EXPECT_EQ(of_column->getRank(), 1 - row);
    EXPECT_EQ(sum(*of_row, static_cast<float>(rank)), static_cast<float>(4 * row + 1));
    EXPECT_EQ(sum(*of_column, static_cast<float>(rank)), static_cast<float>(2 * column + 2));
    const auto alone = group.NewGroup(rank == 3 ? std::vector<int>{3} : std::vector<int>{});
    EXPECT_EQ(alone != nullptr, rank == 3);
    EXPECT_EQ(sum(group, 1.0F), 4.0F) << "the whole group works beside its parts";
  });
}

TEST(HostExchange, ANewGroupIsInTheFlightRecorder) {
  auto memory = SharedRegion::CreateFile();
  const UniqueFd file = std::move(*CreateFlightRecorderFile(2));
  RunRanks(2, [&](int rank) {
    const auto group = HostProcessGroup::Create(
        *memory, {.rank = rank,
                  .size = 2,
                  .recorder = std::move(*FlightRecorder::Attach(file, rank, rank))});
    const auto part = group->NewGroup({1, 0});
    Tensors tensors = {at::ones({4})};
    part->allreduce(tensors, {})->wait();
  });
  const auto reader = std::move(*FlightReader::Open(file, 2));
  for (int rank = 0; rank < 2; ++rank) {
    const FlightSnapshot snapshot = *reader->Read(rank);
    EXPECT_EQ(snapshot.groups, std::vector<uint16_t>{1});
    EXPECT_EQ(snapshot.collectives.back().group, 1);
    EXPECT_EQ(snapshot.collectives.back().elements, 4U);
  }
}

// People look for a rank of the job, and at the groups of all ranks at once.
TEST(HostExchange, GroupsMadeTogetherAreToldApartAndNameTheRanksOfTheJob) {
  auto memory = SharedRegion::CreateFile();
  const UniqueFd file = std::move(*CreateFlightRecorderFile(4));
  RunRanks(4, [&](int rank) {
    const auto group = HostProcessGroup::Create(
        *memory, {.rank = rank,
                  .size = 4,
                  .recorder = std::move(*FlightRecorder::Attach(file, rank, rank))});
    const auto part = group->NewGroup({rank % 2, rank % 2 + 2});
    part->setGroupDesc("data axis");
    part->setTimeout(std::chrono::milliseconds(200));
    Tensors tensors = {at::ones({4})};
    const auto what_of = [](const auto& call) {
      try {
        call();
      } catch (const Failure& failure) {
        return failure.error().where + ": " + failure.error().what;
      }
      return std::string("no error");
    };
    if (rank == 0) {
      const std::string late = what_of([&] { part->allreduce(tensors, {})->wait(); });
      EXPECT_NE(late.find("in time: 2.\nThese are waiting in it: 0."), late.npos) << late;
      EXPECT_EQ(late.find("rank 0 of the data axis: "), 0U) << late;
    }
    if (rank == 3) {
      const std::string late = what_of([&] { part->recv(tensors, 0, 5)->wait(); });
      EXPECT_EQ(late.find("rank 3: The message from rank 1 (16 bytes, tag 5)"), 0U) << late;
    }
    group->barrier()->wait();
  });
  const auto reader = std::move(*FlightReader::Open(file, 4));
  EXPECT_EQ(reader->Read(0)->groups, reader->Read(2)->groups);
  EXPECT_EQ(reader->Read(1)->groups, reader->Read(3)->groups);
  EXPECT_NE(reader->Read(0)->groups, reader->Read(1)->groups);
  const auto page = reader->Read(3);
  for (const RecordedCollective& one : page->collectives) {
    if (one.kind == CollectiveKind::kReceive) {
      EXPECT_EQ(one.number, 1U);
    }
  }
}

// Callbacks that start collectives, and that hold the last of what they work on.
TEST(HostExchange, AFuturesCallbackMayWaitForACollectiveAndBeTheLastUser) {
  auto memory = SharedRegion::CreateFile();
  RunRanks(2, [&](int rank) {
    auto group = HostProcessGroup::Create(*memory, {.rank = rank, .size = 2});
    std::promise<float> result;
    {
      Tensors tensors = {at::ones({40'000})};
      const auto work = group->allreduce(tensors, {});
      work->getFuture()->addCallback([&, group, work](c10::ivalue::Future& future) mutable {
        Tensors again = {future.value().toTensorVector()[0]};
        group->allreduce(again, {})->wait();
        result.set_value(again[0][7].item<float>());
        group.reset();
      });
      group.reset();
    }
    EXPECT_EQ(result.get_future().get(), 4.0F);
  });
}

TEST(HostExchange, AFutureEndsWithItsGroup) {
  auto memory = SharedRegion::CreateFile();
  c10::intrusive_ptr<c10::ivalue::Future> first;
  c10::intrusive_ptr<c10::ivalue::Future> second;
  {
    const auto group = HostProcessGroup::Create(*memory, {.rank = 0, .size = 2});
    Tensors tensors = {at::ones({4})};
    first = group->allreduce(tensors, {})->getFuture();
    second = group->allreduce(tensors, {})->getFuture();
  }  // rank 1 never came
  for (const auto& future : {first, second}) {
    future->wait();
    EXPECT_TRUE(future->hasError());
  }
}

TEST(HostExchange, ANewGroupNamesTheRankWithAnotherList) {
  WithGroup(2, [](HostProcessGroup& group, int rank) {
    try {
      group.NewGroup(rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0});
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().what,
                "Rank " + std::to_string(rank == 0 ? 1 : 0) + " gave another list of ranks.");
    }
  });
}

TEST(HostExchange, RefusesARootOutsideOfTheGroup) {
  WithGroup(1, [](HostProcessGroup& group, int) {
    Tensors tensors = {at::ones({1})};
    c10d::BroadcastOptions options;
    options.rootRank = 1;
    EXPECT_THROW(group.broadcast(tensors, options), Failure);
    EXPECT_THROW(group.send(tensors, 7, 0), Failure);
  });
}

}  // namespace
}  // namespace ddprun::trainer
