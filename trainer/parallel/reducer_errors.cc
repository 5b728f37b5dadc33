// The errors of a reducer for bad gradients or hooks.
#include <exception>

#include "base/failure.h"
#include "trainer/parallel/reducer.h"

namespace ddprun::trainer {

std::string Reducer::Where() const {
  return "rank " + std::to_string(mesh_.data.rank) + ", step " + std::to_string(steps_);
}

Failure MissingGradients(const std::string& where,
                         std::span<const std::string> missing,
                         size_t all,
                         const std::string& otherwise) {
  constexpr size_t kNamed = 10;
  std::string names;
  for (size_t i = 0; i < missing.size() && i < kNamed; ++i) names += "\n    " + missing[i];
  if (missing.size() > kNamed) {
    names += "\n    and " + std::to_string(missing.size() - kNamed) + " more";
  }
  return Failure(Error{.title = "PARAMETERS WITHOUT GRADIENT",
                       .where = where,
                       .what = "backward() ended, but " + std::to_string(missing.size()) + " of " +
                               std::to_string(all) + " parameters got no gradient:" + names,
                       .hint = "Every parameter must take part in the loss; freeze those that do "
                               "not\n(requires_grad_(false)) before the model is wrapped, or " +
                               otherwise,
                       .page = "parameters-without-gradient"});
}

void Reducer::ThrowMissingGradients() const {
  std::vector<std::string> missing;
  for (size_t index = 0; index < readiness_.size(); ++index) {
    if (!readiness_.ready(index)) missing.push_back(buckets_.parameters()[index].name);
  }
  throw MissingGradients(Where(), missing, readiness_.size(), "set find_unused_parameters.");
}

void Reducer::ThrowBadGradient(size_t index, const char* what, const char* hint) const {
  throw Failure(Error{.title = "BAD GRADIENT",
                      .where = Where(),
                      .what = buckets_.parameters()[index].name + " " + what + ".",
                      .hint = hint,
                      .page = "bad-gradient"});
}

// Calls a user's hook, and adds the place to any exception that it throws.
void Reducer::CallHook(const Bucket& bucket, const std::function<void()>& call) const {
  constexpr size_t kNamed = 5;
  try {
    call();
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& exception) {
    const std::vector<size_t>& members = bucket.gradients.parameters;
    std::string names;
    for (size_t i = 0; i < members.size() && i < kNamed; ++i) {
      names += (i == 0 ? "" : ", ") + buckets_.parameters()[members[i]].name;
    }
    if (members.size() > kNamed) {
      names += " and " + std::to_string(members.size() - kNamed) + " more";
    }
    throw Failure(Error{.title = "COMM HOOK FAILED",
                        .where = Where(),
                        .what = "The hook threw on bucket " +
                                std::to_string(bucket.gradients.index) + " (" + names +
                                "): " + exception.what(),
                        .hint = "The other ranks wait for this one until their deadline.",
                        .page = "comm-hook-failed"});
  }
}

}  // namespace ddprun::trainer
