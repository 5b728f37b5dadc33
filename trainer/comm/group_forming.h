// Forms a new group of some ranks of a HostProcessGroup. Internal to HostProcessGroup.
#pragma once

#include <vector>

#include "trainer/comm/host_process_group_core.h"

namespace ddprun::trainer {

struct FormedGroup {
  UniqueFd memory;
  HostProcessGroup::Options options;
};

// See HostProcessGroup::NewGroup. A rank that passes {} gets no memory.
FormedGroup FormGroup(HostProcessGroupCore& core, const std::vector<int>& ranks);

}  // namespace ddprun::trainer
