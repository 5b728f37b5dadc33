// The gate of a job's token.
#pragma once

#include <memory>

#include "base/env.h"
#include "base/result.h"
#include "rendezvous/net/gate.h"
#include "rendezvous/secure/token.h"

namespace ddprun::rendezvous {

// Makes the gate of a job whose agents all have `token`.
std::shared_ptr<Gate> MakeTokenGate(Token token);

// Returns the gate of the token that the environment gives, and removes the token from it: see
// TakeToken(). nullptr if there is none.
Result<std::shared_ptr<Gate>> TakeGate(Environment& env);

}  // namespace ddprun::rendezvous
