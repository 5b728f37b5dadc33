// One finding of `ddprun doctor`, and how it is shown.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ddprun::launcher {

enum class Verdict {
  kOk,
  kNote,     // training works, but there is something to know
  kMissing,  // something that the user asked for does not work
};

struct Finding {
  std::string name;  // "shared memory"
  Verdict verdict = Verdict::kOk;
  std::string what = {};                            // one sentence or less
  std::string remedy = {};                          // "" means that there is nothing to do
  nlohmann::json facts = nlohmann::json::object();  // for programs
};

// The uses that the user has for this machine, besides training on its CPUs.
struct IntendedUse {
  bool gpu = false;
  bool nodes = false;
};

inline Verdict MissingIf(bool is_needed) {
  return is_needed ? Verdict::kMissing : Verdict::kNote;
}

bool NothingMissing(const std::vector<Finding>& findings);

// Returns lines for each finding and its remedy.
std::string DoctorText(const std::vector<Finding>& findings, bool color);
std::string DoctorJson(const std::vector<Finding>& findings, const std::string& host);

}  // namespace ddprun::launcher
