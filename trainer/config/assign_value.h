// Puts one JSON value into the field of its key, or says why it does not fit. Pure.
#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"
#include "trainer/config/json_document.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {

struct ReadContext {
  const Environment& environment;  // for ${NAME}
  std::string config_folder;       // absolute; input paths of the file are relative to it
  std::string working_folder;      // absolute; input paths of --set are relative to it
};

// Errors: wrong type, out of range, not one of the choices, unknown variable.
Status AssignValue(const Key& key,
                   const JsonValue& value,
                   const ReadContext& context,
                   Config* config);

// `text` (decoded from the string at `span`) with every ${NAME} replaced by its value; "$${" stands
// for a plain "${".
Result<std::string> Substitute(const std::string& text,
                               const Span& span,
                               const Environment& environment);

}  // namespace ddprun::trainer
