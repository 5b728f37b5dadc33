// The exchange of rows between the ranks of a node.
#pragma once

#include "base/result.h"
#include "trainer/comm/node_meeting.h"
#include "trainer/comm/rank_rows.h"

namespace ddprun::trainer {

// Exchanges `rows`, piece by piece; this rank's rows are in `input`. Calls `collect` for each piece
// while the rows of all ranks are in place.
Status ShareRowsOnNode(NodeMeeting& node,
                       NodeOperation& operation,
                       const RankRows& rows,
                       const void* input,
                       const CollectRows& collect);

}  // namespace ddprun::trainer
