// Reads lists of hosts in the form of Open MPI and DeepSpeed.

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "launcher/hosts/hosts_plan.h"

namespace ddprun::launcher {

namespace {

constexpr int kMaxSlots = 1 << 16;

// Returns whether neither a shell nor ssh can take the word for anything but a host.
bool IsHostName(std::string_view word) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._:@%-";
  return word.front() != '-' && word.back() != '@' && std::ranges::count(word, '@') <= 1 &&
         ToAsciiLower(word).find_first_not_of(kAllowed) == std::string::npos;
}

// Reads a word behind the host. Returns false for other words than slots=N.
bool ReadWord(const std::string& word, int& slots) {
  const size_t equals = std::min(word.find('='), word.size() - 1);
  const auto number = ParseInt(std::string_view(word).substr(equals + 1));
  if (!number || *number < 1 || *number > kMaxSlots) return false;
  const std::string key = word.substr(0, equals);
  if (key == "max_slots" || key == "max-slots") return true;  // Open MPI's limit for -np
  slots = static_cast<int>(*number);
  return key == "slots";
}

}  // namespace

Result<std::vector<Host>> ParseHostFile(std::string_view text, const std::string& where) {
  std::vector<Host> hosts;
  size_t number = 0;
  const auto bad = [&where, &number](const std::string& what) {
    return Error{.code = Code::kUsage,
                 .title = "BAD HOST FILE",
                 .where = where + (number > 0 ? ":" + std::to_string(number) : ""),
                 .what = what,
                 .hint = "A line is HOST or HOST slots=N, where N is the number of workers there.",
                 .page = "host-file"};
  };
  for (const std::string& line : SplitLines(text)) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    if (!IsHostName(host.name)) {
      return bad("\"" + MakePrintable(host.name) + "\" is no name of a host.");
    }
    for (std::string word; words >> word;) {
      if (ReadWord(word, host.slots)) continue;
      return bad("\"" + MakePrintable(word) + "\"; expected slots=N with N of 1 to " +
                 std::to_string(kMaxSlots) + ".");
    }
    const auto same = std::ranges::find(hosts, host.name, &Host::name);
    if (same == hosts.end()) {
      hosts.push_back(std::move(host));
    } else {
      same->slots = std::max(same->slots, 1) + std::max(host.slots, 1);
    }
  }
  number = 0;
  if (hosts.empty()) return bad("The file has no host.");
  return hosts;
}

}  // namespace ddprun::launcher
