// Reads JSON that other nodes wrote, and converts a RoundEnd to and from JSON. A static job keeps
// the RoundEnd under its failure keys, c10d sends it in control messages. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/rendezvous.h"

namespace ddprun::rendezvous {

// Return a field of an object that another process wrote. If the field is missing or has another
// type, they return the fallback. SmallOf returns -1 unless the number is from 0 to 2^30.
std::string TextOf(const nlohmann::json& object, const char* key);
int64_t NumberOf(const nlohmann::json& object, const char* key, int64_t fallback = -1);
int SmallOf(const nlohmann::json& object, const char* key);
bool FlagOf(const nlohmann::json& object, const char* key);

// {"node_rank": 2, "kind": "failed", "message": "rank 5 was killed by SIGKILL", "exit_code": 137}
nlohmann::json ToJson(const RoundEnd& end);

// Reads a RoundEnd. A field that is missing or has another type keeps its default, so that a
// failure is never dropped and never means success. MakePrintable() has changed the message.
RoundEnd RoundEndOf(const nlohmann::json& json);

std::string ToNote(const RoundEnd& end);
// Reads a text of ToNote(). Any other text becomes the message of an unknown node.
RoundEnd ParseNote(std::string_view note);

// Returns the kJobFailed that replaces a kRestart if a node runs torchrun, because torchrun's
// agents restart on their own.
RoundEnd WithoutRestart(RoundEnd end);

}  // namespace ddprun::rendezvous
