#include "base/text.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <tuple>

#include <nlohmann/json.hpp>

namespace ddprun {

namespace {

constexpr char kEscape = '\x1b';

// Returns the bytes of the escape sequence with which `text` begins.
size_t SequenceLength(std::string_view text) {
  const char kind = text.size() > 1 ? text[1] : '\0';
  if (kind == '[') {  // colours and movements: parameters, then a letter
    size_t end = 2;
    while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
    return std::min(end + 1, text.size());
  }
  if (kind == ']' || kind == 'P' || kind == '^' || kind == '_') {  // titles and other strings
    const size_t end = text.find_first_of("\a\x1b\n", 2);
    if (end == std::string_view::npos || text[end] == '\n') return 2;
    return std::min(text[end] == kEscape ? end + 2 : end + 1, text.size());
  }
  if (kind == '(' || kind == ')') return std::min<size_t>(3, text.size());  // character sets
  return 1;
}

}  // namespace

std::string MakePrintable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Control characters beyond ASCII are two bytes of UTF-8.
    const bool beyond = byte == 0xC2 && i + 1 < text.size() &&
                        (static_cast<unsigned char>(text[i + 1]) & 0xE0) == 0x80;
    if (text[i] == kEscape) {
      i += SequenceLength(text.substr(i));
    } else if (beyond) {
      shown += '?';
      i += 2;
    } else {
      const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
      shown += control ? '?' : text[i];
      ++i;
    }
  }
  return shown;
}

bool IsUtf8(std::string_view text) {
  try {
    std::ignore = nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string TitleBar(std::string_view title, std::string_view tail, size_t columns, bool color) {
  std::string bar = "-- " + std::string(title) + " ";
  const size_t used = bar.size() + (tail.empty() ? 0 : tail.size() + 1);
  if (used < columns) bar.append(columns - used, '-');
  const std::string end = tail.empty() ? "" : " " + std::string(tail);
  return color ? "\033[1;31m" + bar + end + "\033[0m\n" : bar + end + "\n";
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsStackFrame(std::string_view line) {
  constexpr std::string_view kFrame = "frame #";
  if (!line.starts_with(kFrame)) return false;
  line.remove_prefix(kFrame.size());
  const size_t digits = line.find_first_not_of("0123456789");
  return digits != std::string_view::npos && digits > 0 && line[digits] == ':';
}

std::string FormatBytes(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit > 2 && value < 10 ? "%.1f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

std::string CountText(int64_t count, std::string_view thing, std::string_view things) {
  const std::string number = std::to_string(count) + " ";
  if (count == 1) return number + std::string(thing);
  return number + (things.empty() ? std::string(thing) + "s" : std::string(things));
}

size_t EditDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rows.
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> FindNearest(std::string_view word,
                                       std::span<const std::string> candidates) {
  // More edits would reach unrelated words: two turn "batch" into "path" or "fp16" into "fp32". One
  // edit turns a single letter into any other.
  const size_t limit = word.size() < 2 ? 0 : std::max<size_t>(1, word.size() / 4);
  const std::string lower = ToAsciiLower(word);
  const std::string* best = nullptr;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    // A difference of lengths needs as many edits. A hostile word may be a megabyte long.
    const size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) >= best_distance) continue;
    const size_t distance = EditDistance(lower, ToAsciiLower(candidate));
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<std::string> FindNearestFile(const std::string& name,
                                           std::span<const std::string> files) {
  if (auto whole = FindNearest(name, files)) return whole;
  // The dot of a hidden file begins no extension.
  const auto stem = [](const std::string& file) { return file.substr(0, file.find('.', 1)); };
  std::vector<std::string> stems(files.size());
  std::ranges::transform(files, stems.begin(), stem);
  const auto nearest = FindNearest(stem(name), stems);
  if (!nearest) return std::nullopt;
  return files[static_cast<size_t>(std::ranges::find(stems, *nearest) - stems.begin())];
}

}  // namespace ddprun
