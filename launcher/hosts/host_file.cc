#include "launcher/hosts/host_file.h"

#include <algorithm>
#include <sstream>

#include "base/env.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

constexpr int kMaxSlots = 1 << 16;

Error BadLine(const std::string& where, size_t line, std::string what) {
  return Error{.code = Code::kUsage,
               .title = "BAD HOST FILE",
               .where = line > 0 ? where + ":" + std::to_string(line) : where,
               .what = std::move(what),
               .hint = "A line is HOST or HOST slots=N, where N is the number of workers there.",
               .page = "host-file"};
}

// Returns whether no shell and no option of ssh can be meant.
bool IsHostName(std::string_view word) {
  const auto allowed = [](char c) {
    const char lower = static_cast<char>(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("._:@%-").find(c) != std::string_view::npos;
  };
  return word.front() != '-' && word.back() != '@' && std::ranges::all_of(word, allowed) &&
         std::ranges::count(word, '@') <= 1;
}

// Reads a word behind the host. Returns false for other words than slots=N.
bool ReadWord(const std::string& word, int& slots) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return false;
  const std::string key = word.substr(0, equals);
  const auto number = ParseInt(std::string_view(word).substr(equals + 1));
  if (!number || *number < 1 || *number > kMaxSlots) return false;
  if (key == "max_slots" || key == "max-slots") return true;  // Open MPI's limit for -np
  if (key != "slots") return false;
  slots = static_cast<int>(*number);
  return true;
}

}  // namespace

Result<std::vector<Host>> ParseHostFile(std::string_view text, const std::string& where) {
  std::vector<Host> hosts;
  size_t number = 0;
  for (const std::string& line : SplitLines(text)) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    if (!IsHostName(host.name)) {
      return BadLine(where, number, "\"" + MakePrintable(host.name) + "\" is no name of a host.");
    }
    for (std::string word; words >> word;) {
      if (ReadWord(word, host.slots)) continue;
      return BadLine(where, number,
                     "\"" + MakePrintable(word) + "\"; expected slots=N with N of " + "1 to " +
                         std::to_string(kMaxSlots) + ".");
    }
    const auto same = std::ranges::find(hosts, host.name, &Host::name);
    if (same == hosts.end()) {
      hosts.push_back(std::move(host));
    } else {
      same->slots = std::max(same->slots, 1) + std::max(host.slots, 1);
    }
  }
  if (hosts.empty()) return BadLine(where, 0, "The file has no host.");
  return hosts;
}

}  // namespace ddprun::launcher
