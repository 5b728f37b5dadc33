// Reads the values of flags. If the text is not valid, returns false and does not change `out`.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// Reads a number from `min` to `max`.
bool ReadBounded(std::string_view text, int64_t min, int64_t max, int64_t& out);
bool ReadBounded(std::string_view text, int min, int max, int& out);

// Reads any text that is not empty.
bool ReadText(std::string_view text, std::string& out);

// Reads a whole number, where 0 means off, as torchrun reads PET_*; also true and false.
bool ReadSwitch(std::string_view text, bool& out);

// Reads 0 (which means a free port) to 65535.
bool ReadPort(std::string_view text, uint16_t& out);

// Reads seconds, also fractions, from `min_seconds` to a year.
bool ReadSeconds(std::string_view text, double min_seconds, std::chrono::milliseconds& out);

// Reads "0" to "3" (none, stdout, stderr, both), or local_rank:value,...
bool ReadStreams(std::string_view text, StreamsPerRank& out);

// Reads local ranks: "0,2". An empty text means no rank.
bool ReadRanks(std::string_view text, std::set<int>& out);

// Splits words at commas; ",," is a comma within a word. An empty text has no words.
std::vector<std::string> SplitWords(std::string_view text);

// Reads "SIGTERM,SIGUSR1" (SIG may be left out) as numbers.
bool ReadSignals(std::string_view text, std::vector<int>& out);

// Removes blanks at both ends.
std::string_view TrimBlanks(std::string_view text);

}  // namespace ddprun::launcher
