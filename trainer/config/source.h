// Where a piece of configuration stands: a range of bytes in a file or in a --set option.
// Pure values; safe from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddprun::trainer {

// A text that was read. For an override, `text` is what follows "--set ".
struct Source {
  enum class Kind { kFile, kOverride };
  Kind kind = Kind::kFile;
  std::string label;  // the file's path as the user gave it; unused for an override
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

// "train.json:14:5", or "--set optimizer.lr=3".
std::string Where(const Span& span);

// The line of the span with carets under it, at most 92 columns wide, without a last newline:
//   14|     "bucket_size_mb": 25,
//           ^^^^^^^^^^^^^^^^
// Tabs are expanded; control characters and invalid bytes are shown as '?', so that a hostile
// file cannot command the terminal. Of a span over several lines the first line is shown.
std::string Snippet(const Span& span);

// `text` with control characters and invalid UTF-8 as '?', cut to `columns` with "..." at the end.
std::string Printable(std::string_view text, size_t columns);

// Loads a config file's text, with the message for each way that this can fail.

// No config needs more; a data file that is named by mistake is often larger.
constexpr size_t kMaxConfigBytes = 1 << 20;

// The text without a byte order mark. Errors: not found (with the nearest file name), a directory,
// not readable, larger than kMaxConfigBytes.
Result<Source> LoadConfigFile(const std::string& path);

}  // namespace ddprun::trainer
