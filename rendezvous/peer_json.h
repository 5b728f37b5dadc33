// What nodes tell each other as JSON: its fields, and a round's end, which stands under a static
// job's failure keys and in c10d's control messages. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

// Fields of an object that another process wrote; what is missing or of another type gives the
// fallback. Small: from 0 to 2^30, -1 otherwise.
std::string TextOf(const nlohmann::json& object, const char* key);
int64_t NumberOf(const nlohmann::json& object, const char* key, int64_t fallback = -1);
int SmallOf(const nlohmann::json& object, const char* key);
bool FlagOf(const nlohmann::json& object, const char* key);

// {"node_rank": 2, "kind": "failed", "message": "rank 5 was killed by SIGKILL", "exit_code": 137}
nlohmann::json ToJson(const RoundEnd& end);

// What is missing or of another type keeps its default: a failure is never dropped, and never means
// success. Nothing in the message is obeyed by a terminal.
RoundEnd RoundEndOf(const nlohmann::json& json);

std::string ToNote(const RoundEnd& end);
// Text that is no such note becomes the message, of an unknown node.
RoundEnd ParseNote(std::string_view note);

// The end of the job that takes the restart's place where a node runs torchrun: its agents restart
// on their own.
RoundEnd WithoutRestart(RoundEnd end);

}  // namespace ddprun::rendezvous
