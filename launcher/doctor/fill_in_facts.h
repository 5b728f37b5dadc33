// Facts of this node that the other nodes of `ddprun doctor --nodes` get.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/node_report.h"

namespace ddprun::launcher {

// Fills in addresses, of which the first is one of `used` if this node has it, and the MTU. If
// self.interface is set, `used` is its address, and counts even if the interface is down.
void FillInNetwork(const std::vector<std::string>& used, NodeFacts& self);

// Fills in the user, the folder and its free space.
void FillInFolder(NodeFacts& self);

}  // namespace ddprun::launcher
