#include "trainer/parallel/gradient_errors.h"

namespace ddprun::trainer {

namespace {

// Returns the first `most` names, and how many more there are.
std::string FirstOf(std::span<const std::string> names,
                    size_t most,
                    const std::string& separator,
                    const std::string& before_more) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i == 0 ? "" : separator) + names[i];
  if (names.size() > most)
    text += before_more + "and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace

Failure BadParameter(const NamedParameter& parameter, const NamedParameter& first) {
  const auto& [name, tensor] = parameter;
  return Failure(Error{.title = "BAD PARAMETER",
                       .where = name,
                       .what = name + " is a " + c10::str(tensor.layout()) + " tensor on " +
                               tensor.device().str() + "; " + first.name + " is on " +
                               first.tensor.device().str() + ".",
                       .hint = "All parameters of the model must be dense and on one device.",
                       .page = "bad-parameter"});
}

Failure ChangedParameter(const NamedParameter& parameter, const at::Tensor& view) {
  const auto describe = [](const at::Tensor& tensor) {
    return c10::str(tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device());
  };
  return Failure(Error{.title = "BAD PARAMETER",
                       .where = parameter.name,
                       .what = parameter.name + " is " + describe(parameter.tensor) + "; it was " +
                               describe(view) + " when the model was wrapped.",
                       .hint = "Change the model (to(), new sizes) before it is wrapped.",
                       .page = "bad-parameter"});
}

Failure MissingGradients(const std::string& where,
                         std::span<const std::string> missing,
                         size_t all,
                         const std::string& otherwise) {
  const std::string line = "\n    ";
  return Failure(Error{.title = "PARAMETERS WITHOUT GRADIENT",
                       .where = where,
                       .what = "backward() ended, but " + std::to_string(missing.size()) + " of " +
                               std::to_string(all) + " parameters got no gradient:" + line +
                               FirstOf(missing, 10, line, line),
                       .hint = "Every parameter must take part in the loss; freeze those that do "
                               "not\n(requires_grad_(false)) before the model is wrapped, or " +
                               otherwise,
                       .page = "parameters-without-gradient"});
}

Failure BadGradient(const std::string& where, const std::string& what, const std::string& hint) {
  return Failure(Error{
      .title = "BAD GRADIENT", .where = where, .what = what, .hint = hint, .page = "bad-gradient"});
}

Failure GradientWithoutForward(const std::string& where, const std::string& name) {
  return BadGradient(
      where, name + " got a gradient that would not be averaged: no forward came before.",
      "Call the wrapped model, not its module, once before every backward; add up several losses "
      "for\none backward. Use no_sync() for gradients that must not be averaged.");
}

Failure LateGradient(const std::string& where, const std::string& name) {
  return BadGradient(
      where,
      name +
          " got a gradient that would not be averaged: after the last forward it counted as "
          "unused,\nor it had all its gradients.",
      "Return all tensors of the loss from forward, and call the wrapped model once before every "
      "backward.\nSet static_graph only if each step uses the same parameters equally often.");
}

Failure HookFailed(const std::string& where,
                   size_t bucket,
                   std::span<const std::string> names,
                   const std::string& what) {
  return Failure(Error{.title = "COMM HOOK FAILED",
                       .where = where,
                       .what = "The hook threw on bucket " + std::to_string(bucket) + " (" +
                               FirstOf(names, 5, ", ", " ") + "): " + what,
                       .hint = "The other ranks wait for this one until their deadline.",
                       .page = "comm-hook-failed"});
}

}  // namespace ddprun::trainer
