// What nodes write about a failure under the job's failure keys. Pure.
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

// {"node": 2, "kind": "failed", "message": "rank 5 was killed by SIGKILL"}
std::string ToJson(const RoundEnd& end);

// Text that is no such note becomes the message, of an unknown node: a failure is never dropped.
RoundEnd ParseFailureNote(std::string_view json);

// What a message says to a person: it may be a launcher's JSON, then it is its "text".
std::string MessageText(const std::string& message);

// The end of the job that takes the restart's place where a node runs torchrun: its agents restart
// on their own. The reason is put behind the message, or behind "text" in a message of JSON.
RoundEnd WithoutRestart(RoundEnd end);

}  // namespace ddprun::rendezvous
