#include "launcher/cli/read_value.h"

#include <signal.h>

#include <optional>

#include "base/env.h"
#include "base/signal_name.h"
#include "base/text.h"

namespace ddprun::launcher {

namespace {

bool ReadStreamNumber(std::string_view text, Streams& out) {
  int value = 0;
  if (!ReadBounded(text, 0, 3, value)) return false;
  out = {.out = (value & 1) != 0, .err = (value & 2) != 0};
  return true;
}

std::optional<int> SignalNumber(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const known = SignalAbbreviation(signal);
    if (known != nullptr && name == known) return signal;
  }
  return std::nullopt;
}

}  // namespace

bool ReadBounded(std::string_view text, int64_t min, int64_t max, int64_t& out) {
  const std::optional<int64_t> value = ParseInt(text);
  if (!value || *value < min || *value > max) return false;
  out = *value;
  return true;
}

bool ReadBounded(std::string_view text, int min, int max, int& out) {
  int64_t value = 0;
  if (!ReadBounded(text, int64_t{min}, int64_t{max}, value)) return false;
  out = static_cast<int>(value);
  return true;
}

bool ReadText(std::string_view text, std::string& out) {
  if (!text.empty()) out = text;
  return !text.empty();
}

bool ReadSwitch(std::string_view text, bool& out) {
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    out = text == "true" || text == "True";
    return true;
  }
  const std::optional<int64_t> value = ParseInt(text);
  if (!value) return false;
  out = *value != 0;
  return true;
}

bool ReadPort(std::string_view text, uint16_t& out) {
  int value = 0;
  if (!ReadBounded(text, 0, 65535, value)) return false;
  out = static_cast<uint16_t>(value);
  return true;
}

bool ReadSeconds(std::string_view text, double min_seconds, std::chrono::milliseconds& out) {
  const auto time = ParseSeconds(text, min_seconds);
  out = time.value_or(out);
  return time.has_value();
}

bool ReadStreams(std::string_view text, StreamsPerRank& out) {
  StreamsPerRank result;
  if (text.find(':') == std::string_view::npos) {
    if (!ReadStreamNumber(text, result.all)) return false;
    out = result;
    return true;
  }
  for (const std::string_view part : SplitAt(text, ',')) {
    const size_t colon = part.find(':');
    int rank = 0;
    if (colon == std::string_view::npos ||
        !ReadBounded(part.substr(0, colon), 0, rendezvous::kMaxLocalWorkers - 1, rank) ||
        !ReadStreamNumber(part.substr(colon + 1), result.of_rank[rank])) {
      return false;
    }
  }
  out = result;
  return true;
}

bool ReadRanks(std::string_view text, std::set<int>& out) {
  std::set<int> ranks;
  if (!text.empty()) {
    for (const std::string_view part : SplitAt(text, ',')) {
      int rank = 0;
      if (!ReadBounded(TrimBlanks(part), 0, rendezvous::kMaxLocalWorkers - 1, rank)) return false;
      ranks.insert(rank);
    }
  }
  out = std::move(ranks);
  return true;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  if (text.empty()) return words;
  words.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      words.back() += text[i];
    } else if (text.substr(i).starts_with(",,")) {
      words.back() += ',';
      ++i;
    } else {
      words.emplace_back();
    }
  }
  return words;
}

bool ReadSignals(std::string_view text, std::vector<int>& out) {
  std::vector<int> signals;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::optional<int> signal = SignalNumber(TrimBlanks(part));
    // No process can catch SIGKILL and SIGSTOP.
    if (!signal || *signal == SIGKILL || *signal == SIGSTOP) return false;
    signals.push_back(*signal);
  }
  out = std::move(signals);
  return true;
}

std::string_view TrimBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

}  // namespace ddprun::launcher
