// The values of flags: text -> number, time, list. All return false, and leave `out` alone, when
// the text is not what they take.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// From `min` to `max`.
bool ReadBounded(std::string_view text, int64_t min, int64_t max, int64_t& out);
bool ReadBounded(std::string_view text, int min, int max, int& out);

// Anything but nothing.
bool ReadText(std::string_view text, std::string& out);

// As torchrun reads PET_*: a whole number, 0 is off; also true and false.
bool ReadSwitch(std::string_view text, bool& out);

// 0 (a free one) to 65535.
bool ReadPort(std::string_view text, uint16_t& out);

// Seconds, also fractions, from `min_seconds` to a year.
bool ReadSeconds(std::string_view text, double min_seconds, std::chrono::milliseconds& out);

// "0".."3" (none, stdout, stderr, both), or local_rank:value,...
bool ReadStreams(std::string_view text, StreamsPerRank& out);

// "0,2": local ranks. Empty: none.
bool ReadRanks(std::string_view text, std::set<int>& out);

// Words separated by commas; ",," is a comma within a word. Empty: none.
std::vector<std::string> SplitWords(std::string_view text);

// "SIGTERM,SIGUSR1" (SIG may be left out) as numbers.
bool ReadSignals(std::string_view text, std::vector<int>& out);

// Without blanks at both ends.
std::string_view Trimmed(std::string_view text);

}  // namespace ddprun::launcher
