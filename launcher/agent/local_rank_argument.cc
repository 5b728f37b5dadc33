#include "launcher/agent/local_rank_argument.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kLocalRank = "local_rank";

bool IsIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Returns how many characters of `text`, which follows a '$', name the local rank: "{local_rank}",
// or "local_rank" at the end of an identifier. 0 means that it does not name the local rank.
size_t LocalRankLength(std::string_view text) {
  if (text.starts_with("{local_rank}")) return kLocalRank.size() + 2;
  const bool bare = text.starts_with(kLocalRank) &&
                    (text.size() == kLocalRank.size() || !IsIdentifier(text[kLocalRank.size()]));
  return bare ? kLocalRank.size() : 0;
}

}  // namespace

std::string SubstituteLocalRank(std::string_view text, int local_rank) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const std::string_view rest = text.substr(i + 1);
    if (const size_t length = LocalRankLength(rest); length > 0) {
      result += std::to_string(local_rank);
      i += length;
    } else {
      result += '$';
      if (rest.starts_with("$") && LocalRankLength(rest.substr(1)) > 0) {
        result += rest.substr(1, LocalRankLength(rest.substr(1)));
        i += 1 + LocalRankLength(rest.substr(1));
      }
    }
  }
  return result;
}

std::vector<std::string> CommandOf(const std::vector<std::string>& argv, int local_rank) {
  std::vector<std::string> words;
  for (const std::string& word : argv) {
    words.push_back(words.empty() ? word : SubstituteLocalRank(word, local_rank));
  }
  return words;
}

}  // namespace ddprun::launcher
