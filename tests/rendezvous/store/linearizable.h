// Decides whether the calls of several clients on one key of a store can be put into one order:
// each call takes effect at once, at some moment between its begin and its end, and has the answer
// that the key's model gives in that order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/store/wire.h"

namespace ddprun::rendezvous {

struct PastCall {
  Request request;
  std::string answer;  // as ToText() writes it
  // Moments of one clock that all threads share.
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The calls of one client, in their order. Begins and ends do not decrease.
using ClientHistory = std::vector<PastCall>;

// Returns what a client learns from a reply; "" for a call without an answer.
std::string ToText(const Reply& reply);

// All calls are on one key, whatever name their requests have.
bool IsLinearizable(const std::vector<ClientHistory>& clients);

// Returns the calls, a line for each, in the order of their begins.
std::string ToText(const std::vector<ClientHistory>& clients);

}  // namespace ddprun::rendezvous
