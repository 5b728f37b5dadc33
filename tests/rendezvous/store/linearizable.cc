#include "tests/rendezvous/store/linearizable.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "tests/rendezvous/store/key_model.h"

namespace ddprun::rendezvous {

namespace {

// How many calls of each client have taken effect, and what the key is then.
using Place = std::pair<std::vector<size_t>, KeyModel>;

// Returns the end of the earliest call that has not taken effect: nothing that began later may take
// effect before it.
uint64_t EarliestEnd(const std::vector<ClientHistory>& clients, const std::vector<size_t>& done) {
  uint64_t earliest = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < clients.size(); ++i) {
    if (done[i] < clients[i].size()) earliest = std::min(earliest, clients[i][done[i]].end);
  }
  return earliest;
}

std::string Name(Op op) {
  constexpr std::array<const char*, 0x11> kNames = {
      "VALIDATE", "SET",      "COMPARE_SET", "GET",       "ADD",       "CHECK",
      "WAIT",     "NUM_KEYS", "DELETE_KEY",  "APPEND",    "MULTI_GET", "MULTI_SET",
      "CANCEL",   "PING",     "QUEUE_PUSH",  "QUEUE_POP", "QUEUE_LEN"};
  return kNames.at(static_cast<size_t>(op));
}

}  // namespace

std::string ToText(const Reply& reply) {
  switch (reply.form) {
    case ReplyForm::kStatus:
      return std::to_string(reply.status);
    case ReplyForm::kNumber:
      return std::to_string(reply.number);
    case ReplyForm::kValue:
      return reply.values.front();
    case ReplyForm::kNumberAndValue:  // TcpStore does not tell the number
      return reply.values.empty() ? "nothing" : "[" + reply.values.front() + "]";
    default:
      return "";
  }
}

// A search in depth (Wing and Gong) that remembers where it has been (Lowe).
bool IsLinearizable(const std::vector<ClientHistory>& clients) {
  std::set<Place> seen;
  std::vector<Place> open = {{std::vector<size_t>(clients.size(), 0), KeyModel()}};
  while (!open.empty()) {
    const Place place = std::move(open.back());
    open.pop_back();
    const auto& [done, key] = place;
    const uint64_t earliest = EarliestEnd(clients, done);
    if (earliest == std::numeric_limits<uint64_t>::max()) return true;
    for (size_t i = 0; i < clients.size(); ++i) {
      if (done[i] == clients[i].size()) continue;
      const PastCall& call = clients[i][done[i]];
      if (call.begin > earliest) continue;
      Place next = place;
      const auto reply = next.second.Perform(call.request);
      if (!reply || ToText(*reply) != call.answer) continue;
      ++next.first[i];
      if (seen.insert(next).second) open.push_back(std::move(next));
    }
  }
  return false;
}

std::string ToText(const std::vector<ClientHistory>& clients) {
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (size_t i = 0; i < clients.size(); ++i) {
    for (const PastCall& call : clients[i]) {
      const Request& request = call.request;
      lines.emplace_back(call.begin, std::to_string(call.begin) + " to " +
                                         std::to_string(call.end) + ": client " +
                                         std::to_string(i) + " " + Name(request.op) + " \"" +
                                         request.expected + "\" \"" + request.value + "\" " +
                                         std::to_string(request.number) + ": " + call.answer);
    }
  }
  std::ranges::sort(lines);
  std::string text;
  for (const auto& [begin, line] : lines) text += line + "\n";
  return text;
}

}  // namespace ddprun::rendezvous
