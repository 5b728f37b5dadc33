// `ddprun doctor --nodes` on several nodes: they meet in a store, and test each pair.
#pragma once

#include "base/env.h"
#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/doctor/node_report.h"

namespace ddprun::launcher {

// The part of the test that this node has: the report if it is the first node.
struct NodesOutcome {
  bool first = false;
  NodesTest test = {};
};

// Meets the other nodes where `options` say, and tests all pairs. `self` has the versions of this
// node; the rest is filled in. Takes a minute at most until all have come, and a bounded time for
// each round of pairs. Error: the nodes do not meet, or the first one is lost.
Result<NodesOutcome> TestNodes(const Options& options, const Environment& env, NodeFacts self);

}  // namespace ddprun::launcher
