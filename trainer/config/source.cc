#include "trainer/config/source.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace ddprun::trainer {

namespace {

constexpr size_t kTabStop = 4;
constexpr size_t kMaxColumns = 92;
// Columns before the span if a long line is cut.
constexpr size_t kLeadColumns = 30;

struct Glyph {
  std::string text;  // what is printed
  size_t columns = 1;
  size_t bytes = 1;  // of the source
};

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// The common blocks of zero and of double width. Rare ones shift the caret by a column, which is
// better than to depend on the process's locale.
constexpr std::array kZeroWidth = {CodePointRange{0x300, 0x36F}, CodePointRange{0x200B, 0x200F},
                                   CodePointRange{0xFE00, 0xFE0F}};
constexpr std::array kDoubleWidth = {
    CodePointRange{0x1100, 0x115F},  CodePointRange{0x2E80, 0xA4CF},
    CodePointRange{0xAC00, 0xD7A3},  CodePointRange{0xF900, 0xFAFF},
    CodePointRange{0xFE30, 0xFE6F},  CodePointRange{0xFF00, 0xFF60},
    CodePointRange{0xFFE0, 0xFFE6},  CodePointRange{0x1F300, 0x1FAFF},
    CodePointRange{0x20000, 0x3FFFD}};

bool Contains(const auto& ranges, char32_t code_point) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const CodePointRange& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

// Returns the bytes of the UTF-8 sequence at `offset`, and its code point; 0 bytes means invalid.
size_t DecodeUtf8(std::string_view text, size_t offset, char32_t* code_point) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80               ? 1
                        : (lead & 0xE0U) == 0xC0U ? 2
                        : (lead & 0xF0U) == 0xE0U ? 3
                        : (lead & 0xF8U) == 0xF0U ? 4
                                                  : 0;
  if (length == 0 || offset + length > text.size()) return 0;
  *code_point = length == 1 ? lead : lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    *code_point = (*code_point << 6U) | (byte(i) & 0x3FU);
  }
  return length;
}

Glyph GlyphAt(std::string_view text, size_t offset, size_t column) {
  if (text[offset] == '\t') {
    const size_t columns = kTabStop - column % kTabStop;
    return {std::string(columns, ' '), columns, 1};
  }
  char32_t code_point = 0;
  const size_t bytes = DecodeUtf8(text, offset, &code_point);
  const bool control = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
  // Bidirectional overrides could show another text than the one that was read.
  const bool bidi = (code_point >= 0x202A && code_point <= 0x202E) ||
                    (code_point >= 0x2066 && code_point <= 0x2069);
  if (bytes == 0 || control || bidi) return {"?", 1, std::max<size_t>(bytes, 1)};
  const size_t columns = Contains(kZeroWidth, code_point)     ? 0
                         : Contains(kDoubleWidth, code_point) ? 2
                                                              : 1;
  return {std::string(text.substr(offset, bytes)), columns, bytes};
}

struct Line {
  size_t number = 1;
  size_t begin = 0;
  size_t end = 0;
};

Line LineOf(std::string_view text, size_t offset) {
  Line line;
  const std::string_view before = text.substr(0, offset);
  line.number = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  line.begin = newline == std::string_view::npos ? 0 : newline + 1;
  line.end = std::min(text.find('\n', offset), text.size());
  if (line.end > line.begin && text[line.end - 1] == '\r') --line.end;
  return line;
}

// A cell of the printed line. `marked` means that it is in the span.
struct Cell {
  Glyph glyph;
  bool marked = false;
};

std::vector<Cell> CellsOf(std::string_view text, const Line& line, const Span& span) {
  std::vector<Cell> cells;
  size_t column = 0;
  // Decodes only text near the span, because a line may have a megabyte.
  const size_t reach = 4 * kMaxColumns;
  size_t offset = line.begin;
  if (span.begin > line.begin + reach) {
    offset = span.begin - reach;
    while (offset < span.begin && (static_cast<uint8_t>(text[offset]) & 0xC0U) == 0x80U) ++offset;
  }
  const size_t last = std::min(line.end, span.begin + reach);
  while (offset < last) {
    Glyph glyph = GlyphAt(text, offset, column);
    const size_t bytes = glyph.bytes;
    column += glyph.columns;
    cells.push_back({std::move(glyph), offset >= span.begin && offset < span.end});
    offset += bytes;
  }
  return cells;
}

// Drops cells until the marked ones fit into `columns`, with "..." at the cuts.
void CutToWidth(std::vector<Cell>* cells, size_t columns, bool cut_before, bool cut_after) {
  const auto is_marked = [](const Cell& cell) { return cell.marked; };
  const auto width = [](auto begin, auto end) {
    size_t sum = 0;
    for (auto cell = begin; cell != end; ++cell) sum += cell->glyph.columns;
    return sum;
  };
  const Cell dots{{"...", 3, 0}, false};
  if (cut_before || width(cells->begin(), cells->end()) > columns) {
    const auto mark = std::find_if(cells->begin(), cells->end(), is_marked);
    auto first = mark;
    while (first != cells->begin() && width(first, mark) < kLeadColumns) --first;
    if (first != cells->begin() || cut_before) {
      cells->erase(cells->begin(), first);
      cells->insert(cells->begin(), dots);
    }
  }
  if (cut_after || width(cells->begin(), cells->end()) > columns) {
    while (width(cells->begin(), cells->end()) + 3 > columns) cells->pop_back();
    cells->push_back(dots);
  }
}

}  // namespace

Position PositionOf(const Source& source, size_t offset) {
  offset = std::min(offset, source.text.size());
  const Line line = LineOf(source.text, offset);
  Position position{line.number, 1};
  for (size_t i = line.begin; i < offset; ++position.column) {
    i += GlyphAt(source.text, i, 0).bytes;
  }
  return position;
}

std::string Where(const Span& span) {
  if (span.source->kind == Source::Kind::kOverride) {
    return "--set " + Printable(span.source->text, 50);
  }
  const Position position = PositionOf(*span.source, span.begin);
  return span.source->label + ":" + std::to_string(position.line) + ":" +
         std::to_string(position.column);
}

std::string Snippet(const Span& span) {
  const std::string& text = span.source->text;
  const size_t begin = std::min(span.begin, text.size());
  const Line line = LineOf(text, begin);
  const Span clipped{span.source, begin, std::max(span.end, begin + 1)};
  std::vector<Cell> cells = CellsOf(text, line, clipped);
  // An error at the end of a line gets a blank to be marked.
  if (begin >= line.end) cells.push_back({{" ", 1, 0}, true});
  const std::string lead =
      span.source->kind == Source::Kind::kOverride ? "--set " : std::to_string(line.number) + "| ";
  const size_t reach = 4 * kMaxColumns;
  CutToWidth(&cells, kMaxColumns - lead.size(), begin > line.begin + reach,
             line.end > begin + reach);
  std::string shown = lead;
  std::string carets(lead.size(), ' ');
  for (const Cell& cell : cells) {
    shown += cell.glyph.text;
    carets.append(cell.glyph.columns, cell.marked ? '^' : ' ');
  }
  const auto trim = [](std::string* line_text) {
    line_text->erase(line_text->find_last_not_of(' ') + 1);
  };
  trim(&shown);
  trim(&carets);
  return shown + "\n" + carets;
}

std::string Printable(std::string_view text, size_t columns) {
  std::string result;
  size_t column = 0;
  for (size_t offset = 0; offset < text.size();) {
    const Glyph glyph = text[offset] == '\t' ? Glyph{" ", 1, 1} : GlyphAt(text, offset, column);
    if (column + glyph.columns > columns) {
      return result + "...";
    }
    result += glyph.text;
    column += glyph.columns;
    offset += glyph.bytes;
  }
  return result;
}

}  // namespace ddprun::trainer
