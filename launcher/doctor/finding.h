// What `ddprun doctor` found of one thing, and how it is shown.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ddprun::launcher {

enum class Verdict {
  kOk,
  kNote,     // training works without, or there is something to be known
  kMissing,  // something that was asked for cannot be done
};

struct Finding {
  std::string name;  // "shared memory"
  Verdict verdict = Verdict::kOk;
  std::string what = {};                            // one sentence or less
  std::string remedy = {};                          // empty where there is nothing to do
  nlohmann::json facts = nlohmann::json::object();  // for programs
};

// What the user wants this machine for, besides training on its CPUs.
struct Asked {
  bool gpu = false;
  bool nodes = false;
};

// kMissing for what was asked for, else kNote.
inline Verdict MissingIf(bool asked) {
  return asked ? Verdict::kMissing : Verdict::kNote;
}

bool NothingMissing(const std::vector<Finding>& findings);

// One line each and one for its remedy, then what it comes to.
std::string DoctorText(const std::vector<Finding>& findings, bool color);
std::string DoctorJson(const std::vector<Finding>& findings, const std::string& host);

}  // namespace ddprun::launcher
