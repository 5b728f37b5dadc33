#include "tests/trainer/device/process_group.h"

#include <ATen/Functions.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/host_sync.h"
#include "tests/trainer/device/tensors.h"
#include "trainer/comm/host_process_group_tensors.h"
#include "trainer/comm/reduce.h"

namespace ddprun::simulated {
namespace {

using Tensors = SimulatedProcessGroup::Tensors;

std::mutex faults_mutex;
std::string faults;

void NoteFault(const std::string& text) {
  const std::lock_guard lock(faults_mutex);
  faults += text + "\n";
}

class StreamWork : public c10d::Work {
 public:
  StreamWork(int rank,
             c10d::OpType type,
             std::string name,
             std::shared_ptr<const Meeting> meeting,
             const c10::Stream& stream,
             Tensors inputs,
             const Tensors& outputs)
      : Work(rank, type),
        device_(stream.device_index()),
        name_(std::move(name)),
        meeting_(std::move(meeting)),
        inputs_(std::move(inputs)) {
    Record(done_, stream);
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{stream.device()});
    // The future records what is queued on the stream, not results.
    const c10::StreamGuard guard(stream);
    future_->markCompleted(c10::IValue(outputs));
  }

  // A work without wait() is a fault; in a capture, End() finds it.
  ~StreamWork() override {
    const bool may_go = waited_ || opType_ == c10d::OpType::SEND;
    if (may_go || done_.capture != 0 || meeting_->failed()) return;
    NoteFault("nobody has waited for " + name_ + " of rank " + std::to_string(rank_));
  }

  bool isCompleted() override {
    if (done_.signal != nullptr) return done_.signal->IsSet();
    return Query(done_);  // throws in a capture
  }
  bool wait(std::chrono::milliseconds) override {
    if (opType_ == c10d::OpType::BARRIER) {
      NoteHostSync(HostSyncKind::kSynchronize, device_);
      Synchronize(done_);
    } else {
      LetWait(done_, CurrentStream(device_));
    }
    inputs_.clear();
    waited_ = true;
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return future_->value().toTensorVector(); }

 private:
  const int device_;
  const std::string name_;
  const std::shared_ptr<const Meeting> meeting_;
  bool waited_ = false;
  Tensors inputs_;  // kept until the wait, so that no other tensor gets their memory
  Event done_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Returns the reduction of element i of all ranks by `operation`, in rank order.
at::Tensor Reduced(const std::vector<at::Tensor>& given, const c10d::ReduceOp& operation) {
  std::vector<at::Tensor> plain;
  std::vector<const std::byte*> sources;
  for (const at::Tensor& one : given) {
    plain.push_back(one.contiguous());
    sources.push_back(static_cast<const std::byte*>(plain.back().const_data_ptr()));
  }
  const at::Tensor result = at::empty_like(plain[0]);
  std::byte* const target = static_cast<std::byte*>(result.data_ptr());
  const trainer::DataType type = trainer::TypeOf(result);
  trainer::ReduceArrays(type, trainer::ReductionOf(operation, type), sources, {&target, 1},
                        static_cast<size_t>(result.numel()));
  return result;
}

// Returns from each rank's tensor the part for `rank`.
Tensors PartsFor(int rank, const std::vector<Tensors>& given) {
  Tensors parts;
  const auto ranks = static_cast<int64_t>(given.size());
  for (const Tensors& one : given) parts.push_back(one[0].flatten().chunk(ranks)[rank]);
  return parts;
}

bool IsCaptured(const c10::Stream& stream) {
  const auto lock = BookLock();
  return CaptureOf(IndexOf(stream)) != nullptr;
}

// Returns the number of elements and the type of each tensor, which must be equal on NCCL's ranks.
std::string Sizes(const Tensors& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    (text += ' ') += std::to_string(tensor.numel());
    (text += ' ') += c10::toString(tensor.scalar_type());
  }
  return text;
}

std::string Reducing(const c10d::ReduceOp& operation) {
  return ", reduction " + std::to_string(static_cast<int>(c10d::ReduceOp::RedOpType(operation)));
}

}  // namespace

std::string TakeGroupFaults() {
  const std::lock_guard lock(faults_mutex);
  return std::exchange(faults, {});
}

struct Meeting::State {
  struct Round {
    std::vector<Visit> visits;
    int come = 0;
    int gone = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, Round> rounds;
  std::string error;
  std::map<std::pair<int, int>, std::shared_ptr<Meeting>> pairs;
};

Meeting::Meeting(int size) : size_(size), state_(std::make_unique<State>()) {}

Meeting::~Meeting() = default;

void Meeting::Meet(int rank,
                   uint64_t number,
                   const Visit& visit,
                   std::chrono::milliseconds timeout,
                   const std::function<void(const std::vector<Visit>&)>& take) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(state_->mutex);
  State::Round& round = state_->rounds[number];
  const auto until = [&](const auto& condition) {
    state_->changed.notify_all();
    const bool done = state_->changed.wait_until(
        lock, deadline, [&] { return !state_->error.empty() || condition(); });
    if (!done) {
      std::string missing;
      for (int other = 0; other < size_; ++other) {
        const bool came = !round.visits[static_cast<size_t>(other)].operation.empty();
        if (!came) (missing += " ") += std::to_string(other);
      }
      state_->error = "rank" + missing + " did not come to " + visit.operation;
    }
    if (!state_->error.empty()) throw DeviceError(state_->error);
  };
  round.visits.resize(static_cast<size_t>(size_));
  round.visits[static_cast<size_t>(rank)] = visit;
  ++round.come;
  until([&] { return round.come == size_; });
  for (const Visit& other : round.visits) {
    if (other.operation == visit.operation) continue;
    state_->error = "one rank is in " + visit.operation + ", another in " + other.operation;
  }
  until([] { return true; });
  lock.unlock();
  take(round.visits);
  lock.lock();
  ++round.gone;
  until([&] { return round.gone >= size_; });
  // Removed by the last rank that leaves, because others still read `gone`.
  if (++round.gone == 2 * size_) state_->rounds.erase(number);
}

void Meeting::Abort(const std::string& reason) {
  const std::lock_guard lock(state_->mutex);
  if (state_->error.empty()) state_->error = reason;
  state_->changed.notify_all();
  for (const auto& [ranks, pair] : state_->pairs) pair->Abort(reason);
}

std::shared_ptr<Meeting> Meeting::OfPair(int one, int other) {
  const std::lock_guard lock(state_->mutex);
  std::shared_ptr<Meeting>& pair = state_->pairs[std::minmax(one, other)];
  if (pair == nullptr) pair = std::make_shared<Meeting>(2);
  if (!state_->error.empty()) pair->Abort(state_->error);
  return pair;
}

bool Meeting::failed() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->error.empty();
}

SimulatedProcessGroup::SimulatedProcessGroup(std::shared_ptr<Meeting> meeting, int rank, int device)
    : Backend(rank, meeting->size()),
      meeting_(std::move(meeting)),
      device_(device),
      all_(meeting_, rank, device) {}

SimulatedProcessGroup::~SimulatedProcessGroup() {
  if (shut_down_ || !connected_ || meeting_->failed() || std::uncaught_exceptions() > 0) return;
  NoteFault("rank " + std::to_string(rank_) + " has not shut its group down");
}

void SimulatedProcessGroup::eagerConnectSingleDevice(at::Device device) {
  TORCH_CHECK(device == DeviceAt(device_), "the group is of ", DeviceAt(device_), ", not ", device);
  connected_ = true;
}

// NCCL waits without limit for queued work, and for the end of graphs with its collectives.
void SimulatedProcessGroup::shutdown() {
  SynchronizeDevice(device_);
  if (in_graphs_.use_count() > 1) {
    NoteFault("rank " + std::to_string(rank_) + " shuts its group down while a graph uses it");
  }
  if (std::exchange(shut_down_, true)) {
    NoteFault("rank " + std::to_string(rank_) + " shuts its group down twice");
  }
}

void SimulatedProcessGroup::abort() {
  meeting_->Abort("rank " + std::to_string(rank_) + " has aborted the group");
}

at::Tensor SimulatedProcessGroup::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(connected_, "the group has no communicator yet, so none to register memory with");
  return at::zeros({size}, options.device(DeviceAt(device_)));
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::Run(const Call& call,
                                                          Channel& channel,
                                                          const Tensors& inputs,
                                                          const Tensors& outputs,
                                                          const Result& result) {
  const c10d::OpType type = call.type;
  const std::string kind = call.name.empty() ? c10d::opTypeToString(type) : call.name;
  const std::string name = kind + " " + std::to_string(++number_);
  const Doing doing(name);
  TORCH_CHECK(!shut_down_, name, " comes after the group was shut down");
  const bool captured = IsCaptured(CurrentStream(device_));
  TORCH_CHECK(connected_ || !captured, name, " would make a communicator in a capture");
  connected_ = true;
  std::vector<Use> uses;
  Tensors from, to;
  const auto add = [&](const Tensors& tensors, bool writes, Tensors* on_host) {
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(IsOnDevice(tensor) && tensor.device().index() == device_, name,
                  " takes tensors of simulated device ", device_, ", not of ", tensor.device());
      TORCH_CHECK(tensor.is_contiguous(tensor.suggest_memory_format()), name,
                  " takes contiguous tensors");
      AddUse(tensor, writes, &uses);
      on_host->push_back(OnHost(tensor));
    }
  };
  add(inputs, false, &from);
  add(outputs, true, &to);
  const c10::Stream stream = call.async ? channel.stream : CurrentStream(device_);
  if (call.async) {
    Event before;
    Record(before, CurrentStream(device_));
    LetWait(before, stream);
  }
  const Tensors& known = inputs.empty() ? outputs : inputs;
  const std::string form = " of" + Sizes(known) + call.how + (captured ? ", in a graph" : "");
  const auto timeout = call.timeout == c10d::kUnsetTimeout ? timeout_ : call.timeout;
  const auto ran = std::make_shared<bool>(false);
  // Counted when it runs, because a graph replays work that was queued once.
  const auto kernel = [=, run = channel.run, meeting = channel.meeting, rank = channel.rank,
                       in_graph = captured ? in_graphs_ : nullptr] {
    *ran = true;
    const uint64_t number = ++*run;
    const std::string now = kind + " " + std::to_string(number) + form;
    Tensors results;
    meeting->Meet(rank, number, {now, &from}, timeout, [&](const auto& visits) {
      std::vector<Tensors> given;
      for (const Meeting::Visit& visit : visits) given.push_back(*visit.given);
      results = result(given);
    });
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(results[i].view_as(to[i]));
  };
  const SignalPtr done = captured ? nullptr : std::make_shared<Signal>();
  if (!captured && channel.last != nullptr) {
    QueueControl(stream, [last = channel.last] { last->Wait(); });
  }
  Queue(stream, uses, kernel);
  // If an error of the device has dropped the kernel, the other ranks must not wait.
  QueueControl(stream, [ran, name, done, meeting = meeting_, rank = rank_] {
    if (!std::exchange(*ran, false)) {
      meeting->Abort("rank " + std::to_string(rank) + " failed before " + name);
    }
    if (done != nullptr) done->Set();
  });
  if (!captured) channel.last = done;
  if (!call.async) return nullptr;
  Tensors kept = inputs;
  kept.insert(kept.end(), outputs.begin(), outputs.end());
  return c10::make_intrusive<StreamWork>(rank_, type, name, meeting_, stream, std::move(kept),
                                         outputs);
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::Exchange(c10d::OpType type,
                                                               int from,
                                                               int to,
                                                               const Tensors& tensors) {
  const int other = from == rank_ ? to : from;
  const auto [pair, is_new] =
      pairs_.try_emplace(other, meeting_->OfPair(rank_, other), rank_ < other ? 0 : 1, device_);
  for (const at::Tensor& tensor : tensors) tensor.record_stream(pair->second.stream);
  const bool sends = type == c10d::OpType::SEND;
  return Run({.type = type,
              .async = true,
              .timeout = c10d::kUnsetTimeout,
              .name = "MESSAGE from " + std::to_string(from) + " to " + std::to_string(to)},
             pair->second, sends ? tensors : Tensors(), sends ? Tensors() : tensors,
             [first = from < to ? 0U : 1U](const std::vector<Tensors>& given) {
               Tensors results;
               for (const at::Tensor& one : given[first]) results.push_back(one.clone());
               return results;
             });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::send(Tensors& tensors, int to, int /*tag*/) {
  return Exchange(c10d::OpType::SEND, rank_, to, tensors);
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::recv(Tensors& tensors,
                                                           int from,
                                                           int /*tag*/) {
  return Exchange(c10d::OpType::RECV, from, rank_, tensors);
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  return RunOnAll(
      {c10d::OpType::ALLREDUCE, options.asyncOp, options.timeout, Reducing(options.reduceOp)},
      tensors, tensors, [operation = options.reduceOp](const std::vector<Tensors>& given) {
        Tensors results;
        for (size_t i = 0; i < given[0].size(); ++i) {
          Tensors ranks;
          for (const Tensors& one : given) ranks.push_back(one[i]);
          results.push_back(Reduced(ranks, operation));
        }
        return results;
      });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  const auto root = static_cast<size_t>(options.rootRank);
  return RunOnAll(
      {c10d::OpType::BROADCAST, options.asyncOp, options.timeout, ", root " + std::to_string(root)},
      tensors, tensors,
      [root](const std::vector<Tensors>& given) { return Tensors{given[root][0].clone()}; });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return RunOnAll({c10d::OpType::ALLGATHER, options.asyncOp, options.timeout}, inputs, outputs[0],
                  [](const std::vector<Tensors>& given) {
                    Tensors results;
                    for (const Tensors& one : given) results.push_back(one[0].clone());
                    return results;
                  });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return RunOnAll({c10d::OpType::_ALLGATHER_BASE, options.asyncOp, options.timeout}, {input},
                  {output}, [](const std::vector<Tensors>& given) {
                    Tensors all;
                    for (const Tensors& one : given) all.push_back(one[0].flatten());
                    return Tensors{at::cat(all)};
                  });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return RunOnAll({c10d::OpType::_REDUCE_SCATTER_BASE, options.asyncOp, options.timeout,
                   Reducing(options.reduceOp)},
                  {input}, {output},
                  [operation = options.reduceOp, rank = rank_](const std::vector<Tensors>& given) {
                    return Tensors{Reduced(PartsFor(rank, given), operation)};
                  });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::alltoall_base(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits,
    const c10d::AllToAllOptions& options) {
  TORCH_CHECK(output_splits.empty() && input_splits.empty(), "only equal parts");
  return RunOnAll({c10d::OpType::ALLTOALL_BASE, options.asyncOp, options.timeout}, {input},
                  {output}, [rank = rank_](const std::vector<Tensors>& given) {
                    return Tensors{at::cat(PartsFor(rank, given))};
                  });
}

SimulatedProcessGroup::WorkPtr SimulatedProcessGroup::barrier(const c10d::BarrierOptions& options) {
  WorkPtr work = RunOnAll({c10d::OpType::BARRIER, options.asyncOp, options.timeout}, {}, {},
                          [](const std::vector<Tensors>&) { return Tensors(); });
  if (options.asyncOp) return work;
  NoteHostSync(HostSyncKind::kSynchronize, device_);
  Synchronize(CurrentStream(device_));
  return nullptr;
}

c10::intrusive_ptr<c10d::Backend> MakeGroup(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                            int rank,
                                            int size,
                                            std::chrono::milliseconds timeout,
                                            const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Meeting>> meetings;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Meeting> meeting = meetings[name].lock();
  if (meeting == nullptr) meetings[name] = meeting = std::make_shared<Meeting>(size);
  auto group = c10::make_intrusive<SimulatedProcessGroup>(meeting, rank, CurrentDevice());
  group->setTimeout(timeout);
  return group;
}

}  // namespace ddprun::simulated
