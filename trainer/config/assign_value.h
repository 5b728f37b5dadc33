// Assigns one JSON value to the field of its key. Pure.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"
#include "trainer/config/json_document.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

struct ReadContext {
  const Environment& environment;  // for ${NAME}
  std::string config_folder;       // absolute; the file's input paths are relative to it
  std::string working_folder;      // absolute; input paths of --set are relative to it
};

// Errors: a wrong type, out of range, not one of the choices, an unknown variable.
Status AssignValue(const Key& key,
                   const JsonValue& value,
                   const ReadContext& context,
                   Config* config);

// Returns `text`, the decoded string at `span`, with each ${NAME} replaced. "$${" becomes "${".
Result<std::string> Substitute(const std::string& text,
                               const Span& span,
                               const Environment& environment);

}  // namespace ddprun::trainer
