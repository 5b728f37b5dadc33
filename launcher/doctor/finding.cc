#include "launcher/doctor/finding.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/cli/help_text.h"

namespace ddprun::launcher {

namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 24;  // width of verdict and name

struct Look {
  const char* word;
  const char* color;
};

Look LookOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return {"ok", "\033[32m"};
    case Verdict::kNote:
      return {"note", "\033[33m"};
    case Verdict::kMissing:
      return {"MISSING", "\033[1;31m"};
  }
  return {"", ""};
}

std::string PadRight(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

// Breaks `text` into lines that fit behind verdict and name, and indents all but the first line.
std::string HangingIndent(const std::string& text, const std::string& before) {
  std::string result;
  for (const std::string& line : WrapText(text, kColumns - kIndent - before.size())) {
    result += result.empty() ? before : std::string(kIndent + before.size(), ' ');
    result += line + "\n";
  }
  return result;
}

}  // namespace

bool NothingMissing(const std::vector<Finding>& findings) {
  return std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.verdict == Verdict::kMissing; });
}

std::string DoctorText(const std::vector<Finding>& findings, bool color) {
  std::string text;
  for (const Finding& finding : findings) {
    const Look look = LookOf(finding.verdict);
    const std::string word = PadRight(look.word, 9);
    const std::string name = PadRight(finding.name, kIndent - 9);
    text += color ? look.color + word + "\033[0m" + name : word + name;
    text += HangingIndent(finding.what, "");
    if (!finding.remedy.empty()) {
      text += std::string(kIndent, ' ') + HangingIndent(finding.remedy, "-> ");
    }
  }
  return text;
}

std::string DoctorJson(const std::vector<Finding>& findings, const std::string& host) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"name", finding.name},
                      {"verdict", ToAsciiLower(LookOf(finding.verdict).word)},
                      {"what", finding.what},
                      {"remedy", finding.remedy},
                      {"facts", finding.facts}});
  }
  const nlohmann::json all = {{"ddprun", DDPRUN_VERSION},
                              {"host", host},
                              {"nothing_missing", NothingMissing(findings)},
                              {"checks", std::move(checks)}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::launcher
