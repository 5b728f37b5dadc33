// The store's meaning under the histories of several connections: every request with an answer gets
// one of its form, nobody gets one who does not wait, memory stays within its limit, and nothing is
// left of connections that have gone.
#include <algorithm>
#include <map>

#include "fuzz/input.h"
#include "rendezvous/store/store_state.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;

constexpr StoreLimits kLimits = {
    .max_total_bytes = 2000, .max_entries = 12, .max_reply_bytes = 100};
constexpr ConnectionId kConnections = 4;

class History {
 public:
  void Step(Input& input) {
    const uint8_t choice = input.Byte();
    const ConnectionId from = choice % kConnections;
    if (choice >= 0xF0) return Leave(from);
    const Request request = input.Request();
    const bool waited = state_.waits().contains(from);
    std::vector<OutgoingReply> replies;
    const auto waiting = Waiting();
    const Status status = state_.Handle(from, request, replies);
    CheckReplies(from, request, status.ok(), waited, waiting, replies);
    Require(state_.total_bytes() <= kLimits.max_total_bytes);
    Require(state_.num_keys() + state_.num_queue_elements() <= kLimits.max_entries);
    if (!status.ok()) Leave(from);
  }

  void End() {
    for (ConnectionId connection = 0; connection < kConnections; ++connection) Leave(connection);
    Require(state_.waits().num_parked() == 0);
    Require(state_.waits().num_keys() == 0);
    Require(state_.waits().cost_bytes() == 0);
  }

 private:
  std::map<ConnectionId, bool> Waiting() const {
    std::map<ConnectionId, bool> waiting;
    for (ConnectionId connection = 0; connection < kConnections; ++connection) {
      waiting[connection] = state_.waits().contains(connection);
    }
    return waiting;
  }

  void Leave(ConnectionId connection) {
    Require(state_.waits().Missing(connection).empty() != state_.waits().contains(connection));
    state_.Disconnect(connection);
    Require(!state_.waits().contains(connection));
  }

  void CheckReplies(ConnectionId from,
                    const Request& request,
                    bool accepted,
                    bool waited,
                    const std::map<ConnectionId, bool>& waiting,
                    const std::vector<OutgoingReply>& replies) const {
    size_t own = 0;
    for (const auto& [to, reply] : replies) {
      const bool answer = to == from && reply.form == FormOfReply(request.op) && own == 0;
      const bool wake = waiting.at(to) && reply.form == ReplyForm::kStatus &&
                        reply.status == kStopWaiting && !state_.waits().contains(to);
      Require(answer || wake);
      own += answer;
    }
    const bool parks = request.op == Op::kWait || request.op == Op::kBarrier;
    const bool answers = FormOfReply(request.op) != ReplyForm::kNone;
    if (!accepted || waited) return;
    if (parks) Require((own == 1) != state_.waits().contains(from));
    if (!parks) Require(own == (answers ? 1 : 0));
  }

  StoreState state_{kLimits};
};

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddprun::fuzz::Input input(data, size);
  ddprun::fuzz::History history;
  while (!input.empty()) history.Step(input);
  history.End();
  return 0;
}
