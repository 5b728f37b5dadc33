// Places in a config: ranges of bytes in a file or in a --set option.
// Pure values; safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::trainer {

// A text that was read. For an override, `text` is the part after "--set ".
struct Source {
  enum class Kind { kFile, kOverride };
  Kind kind = Kind::kFile;
  std::string label;  // the file's path as given; not used for an override
  std::string text;
};

// Bytes [begin, end) of a source, which must outlive the span.
struct Span {
  const Source* source = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

// 1-based. A column counts characters (Unicode code points), as editors do.
struct Position {
  size_t line = 1;
  size_t column = 1;
};

Position PositionOf(const Source& source, size_t offset);

// Returns "train.json:14:5", or "--set optimizer.lr=3".
std::string Where(const Span& span);

// Returns the span's line with carets below, at most 92 columns wide, without a last newline:
//   14|     "bucket_size_mb": 25,
//           ^^^^^^^^^^^^^^^^
// Tabs are expanded. Control characters and invalid bytes become '?', so that a hostile file cannot
// control the terminal. A span over several lines shows its first line.
std::string Snippet(const Span& span);

// Returns `text` with '?' for control characters and invalid UTF-8, cut to `columns` with "...".
std::string Printable(std::string_view text, size_t columns);

// No config needs more, but a data file that is named by mistake is often larger.
constexpr size_t kMaxConfigBytes = 1 << 20;

// Reads a file and removes a byte order mark. Errors: not found (with the nearest file name), a
// directory, not readable, larger than kMaxConfigBytes.
Result<Source> LoadConfigFile(const std::string& path);

}  // namespace ddprun::trainer
