// Texts that other processes write and we read: ranks, failures, the control connection's messages,
// a store's state, addresses, the kernel's table of sockets, SLURM's lists of nodes. None may do
// more than be refused.
#include <nlohmann/json.hpp>

#include "base/node_list.h"
#include "base/untrusted_json.h"
#include "fuzz/input.h"
#include "rendezvous/elastic/control_message.h"
#include "rendezvous/net/address.h"
#include "rendezvous/net/socket_table.h"
#include "rendezvous/peer_json.h"
#include "rendezvous/rank_json.h"
#include "rendezvous/store/store_status.h"

namespace ddprun::fuzz {
namespace {

using namespace rendezvous;

// A fuzzer does not get deep or long by itself: the first "@" becomes an array of that depth around
// a string of that length.
std::string Grown(std::string text, size_t depth, size_t length) {
  const size_t place = text.find("\"@\"");
  if (place == std::string::npos) return text;
  const std::string value = '"' + std::string(length, 'x') + '"';
  return text.replace(place, 3, std::string(depth, '[') + value + std::string(depth, ']'));
}

void ReadRanks(std::string_view text) {
  if (const auto info = ParseRoleInfo(text)) Require(ParseRoleInfo(ToJson(*info)).has_value());
  (void)ParseAssignedRanks(text);
}

void ReadFailure(std::string_view text) {
  const RoundEnd end = ParseNote(ToNote(ParseNote(text)));  // now in UTF-8
  const RoundEnd again = ParseNote(ToNote(end));
  Require(again.node_rank == end.node_rank && again.kind == end.kind);
  Require(again.message == end.message && again.exit_code == end.exit_code);
  (void)ToNote(WithoutRestart(end));
}

void ReadControlMessage(std::string_view text) {
  const auto message = ParseUntrustedJson(text);
  if (!message.is_object()) return;
  if (const auto hello = ParseHello(message); hello.has_value()) {
    Require(ParseHello(ToJson(*hello)).has_value());
  }
  if (const auto ballot = BallotOf(message)) Require(BallotOf(ToJson(*ballot)).has_value());
  if (const auto vote = VoteOf(message)) Require(VoteOf(ToJson(*vote)).has_value());
  (void)MembershipOf(message);
  (void)RoundEndOf(message);
  (void)RefusalOf(message);
  (void)TextOf(message, "type");
  (void)NumberOf(message, "attempt");
  (void)FlagOf(message, "loopback_only");
}

void ReadStatus(std::string_view text) {
  if (const auto status = ParseStoreStatus(text); status.has_value()) {
    Require(ParseStoreStatus(ToText(*status)).has_value());
  }
}

void ReadAddress(std::string_view text) {
  const auto endpoint = ParseHostPort(text, 29400);
  if (!endpoint.has_value()) return;
  const auto again = ParseHostPort(ToString(*endpoint), 29400);
  Require(again.has_value() && *again == *endpoint);
}

// Names written one by one are the same names.
void ReadNodes(std::string_view text) {
  const auto names = ParseNodeList(text, "LIST");
  if (!names.has_value()) return Require(!names.error().what.empty());
  std::string list;
  for (const std::string& name : *names) list += name + ",";
  const auto again = ParseNodeList(list, "LIST");
  Require(again.has_value() && *again == *names);
}

}  // namespace
}  // namespace ddprun::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun::fuzz;
  Input input(data, size);
  const uint8_t reader = input.Byte();
  const bool grows = reader >= 128;
  const size_t depth = grows ? size_t{input.Byte()} * 256 : 0;
  const size_t length = grows ? size_t{input.Byte()} * 64 : 0;
  const std::string text = Grown(std::string(input.Rest()), depth, length);
  switch (reader % 8) {
    case 0:
      ReadRanks(text);
      break;
    case 1:
      ReadFailure(text);
      break;
    case 2:
      ReadControlMessage(text);
      break;
    case 3:
      ReadStatus(text);
      break;
    case 4:
      ReadAddress(text);
      break;
    case 5:
      ReadNodes(text);
      break;
    default:
      (void)ddprun::rendezvous::ParseSocketTable(text);
  }
  return 0;
}
