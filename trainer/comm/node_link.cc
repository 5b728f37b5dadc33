#include "trainer/comm/node_link.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "trainer/comm/meeting_errors.h"
#include "trainer/comm/packed_error.h"

namespace ddprun::trainer {

namespace {

// Time that a wait continues after the deadline, to learn of a failure on another node.
constexpr std::chrono::milliseconds kNewsGrace{1000};
// Time for the launchers to tell all nodes that a rank is lost, after its connections have ended.
constexpr std::chrono::milliseconds kLossNews{5000};
// Time between two looks for lost ranks.
constexpr std::chrono::milliseconds kLossPoll{10};
// Time that a failed rank waits for its report to leave.
constexpr std::chrono::milliseconds kLastWords{300};

}  // namespace

uint64_t WireTag(uint16_t group, WireStream stream, int from, uint32_t number) {
  return uint64_t{group} << 51 | static_cast<uint64_t>(stream) << 48 |
         static_cast<uint64_t>(from) << 32 | number;
}

NodeLink::NodeLink(GroupWire wire, NodeMeeting& meeting, const NodePlacement& placement)
    : wire_(std::move(wire)), meeting_(meeting), placement_(placement) {
  for (int node = 0; node < placement_.nodes(); ++node) {
    if (node == placement_.node()) continue;
    auto end = std::make_unique<FarEnd>();
    end->rank = placement_.Counterpart(node);
    far_ends_.push_back(std::move(end));
    for (int lane = 0; lane < placement_.lanes(); ++lane) {
      auto witness = std::make_unique<Witness>();
      witness->rank = placement_.Members(node)[static_cast<size_t>(lane)];
      witness->receive = Receive(witness->rank, WireStream::kFailure, 0, witness->failure.data(),
                                 witness->failure.size());
      witnesses_.push_back(std::move(witness));
    }
  }
  running_.clear();
}

NodeLink::~NodeLink() {
  for (const auto& witness : witnesses_) wire_.transport->Cancel(witness->receive);
}

NodeLink::Handle NodeLink::Send(
    int rank, WireStream stream, uint32_t number, const void* data, size_t bytes) {
  const uint64_t tag = WireTag(wire_.group, stream, placement_.rank(), number);
  running_.push_back(
      wire_.transport->Send(wire_.peers[static_cast<size_t>(rank)], tag, data, bytes));
  return running_.back();
}

NodeLink::Handle NodeLink::Receive(
    int rank, WireStream stream, uint32_t number, void* data, size_t bytes) {
  const uint64_t tag = WireTag(wire_.group, stream, rank, number);
  running_.push_back(
      wire_.transport->Receive(wire_.peers[static_cast<size_t>(rank)], tag, data, bytes));
  return running_.back();
}

void NodeLink::SendHeaders(const NodeOperation& operation) {
  own_header_ = operation.header;
  for (const auto& end : far_ends_) {
    end->header_receive =
        Receive(end->rank, WireStream::kHeader, 0, &end->header, sizeof(OperationHeader));
    Send(end->rank, WireStream::kHeader, 0, &own_header_, sizeof(OperationHeader));
  }
}

Status NodeLink::AwaitHeaders(const NodeOperation& operation) {
  operation.recording.SetWaiting(true);
  const auto all_here = [&] {
    return std::all_of(far_ends_.begin(), far_ends_.end(),
                       [](const auto& end) { return end->header_receive->done.load(); });
  };
  DDPRUN_TRY(WaitUntil(operation, all_here));
  operation.recording.SetWaiting(false);
  return CompareHeaders();
}

// Compares the headers that have come.
Status NodeLink::CompareHeaders() {
  for (const auto& end : far_ends_) {
    const bool here = end->header_receive != nullptr && end->header_receive->done.load() &&
                      end->header_receive->status.ok();
    if (here && !SameOperation(end->header, own_header_)) {
      return MismatchedCollectives(placement_.NameOf(placement_.rank()), own_header_, end->rank,
                                   end->header);
    }
  }
  return {};
}

Status NodeLink::Check(const NodeOperation& operation) {
  if (failed_) return *failed_;
  // First looks for another node's report: it names the cause of errors of messages here.
  for (const auto& witness : witnesses_) {
    const Handle& heard = witness->receive;
    if (!heard->done.load(std::memory_order_acquire) || !heard->status.ok()) continue;
    Error error = AddReporter(placement_.NameOf(witness->rank),
                              UnpackError({witness->failure.data(), heard->bytes}));
    error.where = "rank " + std::to_string(placement_.NameOf(placement_.rank()));
    return error;
  }
  const auto ended = std::stable_partition(running_.begin(), running_.end(), [](const auto& r) {
    return !r->done.load(std::memory_order_acquire);
  });
  for (auto request = ended; request != running_.end(); ++request) {
    if ((*request)->status.ok()) continue;
    if (auto loss = LossIn(operation, kLossNews)) return *std::move(loss);
    DDPRUN_TRY(CompareHeaders());  // other operations' messages may not fit
    Error error = (*request)->status.error();
    return std::move(error).While("In " + Describe(operation.header));
  }
  running_.erase(ended, running_.end());
  return {};
}

std::optional<Error> NodeLink::LossIn(const NodeOperation& operation,
                                      std::chrono::milliseconds limit) const {
  const LossWatch& losses = meeting_.losses();
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    if (const auto lost = losses.LostRank()) {
      return RankLost(placement_.rank(), *lost, Describe(operation.header));
    }
    if (!losses.may_continue() || meeting_.cancelled() || Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kLossPoll);
  }
}

Status NodeLink::WaitForNews(const NodeOperation& operation, uint64_t seen) {
  const Clock::time_point end = operation.deadline + kNewsGrace;
  do {
    const Clock::time_point look = std::min(end, Clock::now() + kLossPoll);
    if (wire_.transport->WaitForCompletion(seen, {look, meeting_.cancelled()})) return {};
    if (meeting_.cancelled()) {
      return CollectiveCancelled(placement_.NameOf(placement_.rank()), operation);
    }
    if (auto loss = LossIn(operation, {})) return *std::move(loss);
  } while (Clock::now() < end);
  return TimedOut(operation);
}

Error NodeLink::TimedOut(const NodeOperation& operation) {
  std::string missing;
  std::string present;
  for (const auto& end : far_ends_) {
    const bool here = end->header_receive != nullptr && end->header_receive->done.load();
    for (const int rank : placement_.Members(placement_.NodeOf(end->rank))) {
      std::string& list = here ? present : missing;
      list += (list.empty() ? "" : ", ") + std::to_string(placement_.NameOf(rank));
    }
  }
  const std::string where = operation.recording.StepAndBucket();
  const std::string what = Describe(operation.header) + (where.empty() ? "" : " of " + where);
  return Error{
      .code = Code::kDeadlineExceeded,
      .title = "COLLECTIVE TIMED OUT",
      .where = "rank " + std::to_string(placement_.NameOf(placement_.rank())),
      .what = missing.empty()
                  ? "In " + what +
                        " the data of these ranks of other nodes did not come in time: " + present +
                        "."
                  : "Nothing was heard from the nodes of these ranks in time for " + what + ": " +
                        missing + ".",
      .hint =
          "Look at the log of those ranks, and whether the network between the nodes works. If "
          "they are only slow, raise comm.train_timeout_seconds.",
      .page = "collective-timed-out"};
}

Status NodeLink::AwaitAll(const NodeOperation& operation) {
  return WaitUntil(operation, [&] { return running_.empty(); });
}

void NodeLink::Fail(const Error& error) {
  if (failed_) return;
  failed_ = error;
  // The launchers have told all ranks, and the lost one takes no message.
  if (meeting_.losses().LostRank()) {
    wire_.transport->Abort();
    return running_.clear();
  }
  const std::string packed = PackError(error);
  std::vector<Handle> words;
  for (const auto& witness : witnesses_) {
    words.push_back(Send(witness->rank, WireStream::kFailure, 0, packed.data(), packed.size()));
  }
  const Transport::Limits limits{Clock::now() + kLastWords, meeting_.cancelled()};
  const auto said = [](const Handle& word) { return word->done.load(); };
  for (;;) {
    const uint64_t seen = wire_.transport->completions();
    if (std::all_of(words.begin(), words.end(), said)) break;
    if (!wire_.transport->WaitForCompletion(seen, limits)) break;
  }
  wire_.transport->Abort();
  running_.clear();
}

}  // namespace ddprun::trainer
