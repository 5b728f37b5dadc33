// Every collective once per size, printed; collectives_peer.py prints the same with torch's Gloo.
//   collectives_main FILE       (under ddprun; writes FILE.<rank>)
#include <ATen/Functions.h>

#include <fstream>
#include <string>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/control_collectives/StoreCollectives.hpp>

#include "base/failure.h"
#include "trainer/comm/bootstrap.h"

namespace {

using Tensors = std::vector<at::Tensor>;

// Small whole numbers, so that every order of summing gives the same.
at::Tensor Values(int64_t count, int64_t rank, int64_t salt) {
  return ((at::arange(count) * 7 + rank * 31 + salt * 13) % 101).to(at::kFloat);
}

class Printer {
 public:
  explicit Printer(const std::string& path) : out_(path, std::ios::app) {}
  void operator()(const std::string& name, const at::Tensor& tensor) {
    out_ << name;
    const at::Tensor flat = tensor.to(at::kLong).reshape({-1}).contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) out_ << ' ' << flat.const_data_ptr<int64_t>()[i];
    out_ << '\n';
  }

 private:
  std::ofstream out_;
};

void Reductions(c10d::Backend& group, int64_t n, Printer& print) {
  const int rank = group.getRank();
  const std::vector<std::pair<std::string, c10d::ReduceOp>> ops = {
      {"sum", c10d::ReduceOp::SUM}, {"max", c10d::ReduceOp::MAX}, {"min", c10d::ReduceOp::MIN}};
  for (const auto& [name, op] : ops) {
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    Tensors tensors = {Values(n, rank, 1)};
    group.allreduce(tensors, options)->wait();
    print("all_reduce " + name, tensors[0]);
    c10d::ReduceOptions reduce;
    reduce.reduceOp = op;
    reduce.rootRank = group.getSize() - 1;
    tensors = {Values(n, rank, 2)};
    group.reduce(tensors, reduce)->wait();
    if (rank == reduce.rootRank) print("reduce " + name, tensors[0]);
  }
  at::Tensor output = at::zeros({n});
  at::Tensor input = Values(n * group.getSize(), rank, 3);
  group._reduce_scatter_base(output, input, {})->wait();
  print("reduce_scatter", output);
}

void Copies(c10d::Backend& group, int64_t n, Printer& print) {
  const int rank = group.getRank();
  const int size = group.getSize();
  for (int root = 0; root < size; ++root) {
    Tensors tensors = {Values(n, rank, 4 + root)};
    c10d::BroadcastOptions broadcast;
    broadcast.rootRank = root;
    group.broadcast(tensors, broadcast)->wait();
    print("broadcast", tensors[0]);

    std::vector<Tensors> parts;
    if (rank == root) {
      parts.emplace_back();
      for (int to = 0; to < size; ++to) parts[0].push_back(Values(n, to, 20 + root));
    }
    Tensors output = {at::zeros({n})};
    c10d::ScatterOptions scatter;
    scatter.rootRank = root;
    group.scatter(output, parts, scatter)->wait();
    print("scatter", output[0]);

    std::vector<Tensors> gathered;
    if (rank == root) gathered.emplace_back(static_cast<size_t>(size));
    for (Tensors& list : gathered) {
      for (at::Tensor& part : list) part = at::zeros({n});
    }
    Tensors own = {Values(n, rank, 40 + root)};
    c10d::GatherOptions gather;
    gather.rootRank = root;
    group.gather(gathered, own, gather)->wait();
    if (rank == root) print("gather", at::cat(gathered[0]));
  }
  at::Tensor all = at::zeros({n * size});
  at::Tensor own = Values(n, rank, 60);
  group._allgather_base(all, own, {})->wait();
  print("all_gather", all);
}

void Exchanges(c10d::Backend& group, int64_t n, Printer& print) {
  const int rank = group.getRank();
  const int size = group.getSize();
  std::vector<int64_t> none;
  at::Tensor input = Values(n * size, rank, 61);
  at::Tensor output = at::zeros({n * size});
  group.alltoall_base(output, input, none, none, {})->wait();
  print("all_to_all", output);

  // Rank f sends n + f + 2 t elements to rank t.
  std::vector<int64_t> send;
  std::vector<int64_t> receive;
  int64_t sent = 0;
  int64_t received = 0;
  for (int peer = 0; peer < size; ++peer) {
    send.push_back(n + rank + 2 * peer);
    receive.push_back(n + peer + 2 * rank);
    sent += send.back();
    received += receive.back();
  }
  input = Values(sent, rank, 62);
  output = at::zeros({received});
  group.alltoall_base(output, input, receive, send, {})->wait();
  print("all_to_all splits", output);

  Tensors message = {Values(n, rank, 63)};
  Tensors arrived = {at::zeros({n})};
  const auto sending = group.send(message, (rank + 1) % size, 5);
  group.recv(arrived, (rank + size - 1) % size, 5)->wait();
  sending->wait();
  print("send_recv", arrived[0]);
  group.barrier({})->wait();
}

}  // namespace

int main(int /*argc*/, char** argv) {
  try {
    for (const int64_t n : {1, 17, 5000, 300'007}) {
      // Each time anew, in the same process.
      const auto group = ddprun::init_process_group(std::chrono::seconds(60));
      Printer print(std::string(argv[1]) + "." + std::to_string(group->getRank()));
      Reductions(*group, n, print);
      Copies(*group, n, print);
      Exchanges(*group, n, print);
      const auto store =
          c10::make_intrusive<c10d::PrefixStore>(std::to_string(n), ddprun::job_store());
      c10d::StoreCollectives over_store(store, group->getRank(), group->getSize());
      if (over_store.allSum("ranks", 1) != group->getSize()) return 1;
    }
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
  return 0;
}
