// The errors of parameters and gradients that cannot be averaged. `where`: rank and step.
#pragma once

#include <span>
#include <string>

#include <ddprun/comm_hook.h>
#include "base/failure.h"

namespace ddprun::trainer {

// Returns the error of a parameter that is not dense, or not on the device of the first one.
Failure BadParameter(const NamedParameter& parameter, const NamedParameter& first);

// Returns the error of a parameter that has changed since its gradient was like `view`.
Failure ChangedParameter(const NamedParameter& parameter, const at::Tensor& view);

// Returns the error of a backward that ended without the gradients of `missing`, out of `all`
// parameters. `otherwise`: what users can do besides freezing the missing parameters.
Failure MissingGradients(const std::string& where,
                         std::span<const std::string> missing,
                         size_t all,
                         const std::string& otherwise);

// Returns the error of a gradient that would not be averaged, because no forward came before.
Failure GradientWithoutForward(const std::string& where, const std::string& name);

// Returns the error of a gradient that came although the parameter counted as unused or complete.
Failure LateGradient(const std::string& where, const std::string& name);

Failure BadGradient(const std::string& where, const std::string& what, const std::string& hint);

// Returns the error of a comm hook that threw `what` on a bucket with the parameters `names`.
Failure HookFailed(const std::string& where,
                   size_t bucket,
                   std::span<const std::string> names,
                   const std::string& what);

}  // namespace ddprun::trainer
