#include "trainer/data/data_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_set>

#include "base/text.h"
#include "trainer/text/file_stream.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  for (const std::string& pattern : patterns) {
    for (std::string& file : ValueOrThrow(ExpandGlob(pattern))) {
      std::error_code ignored;
      const std::string canonical = std::filesystem::canonical(file, ignored).string();
      if (seen.insert(canonical).second) files.push_back(std::move(file));
    }
  }
  return files;
}

FileBytes ReadDataFile(const std::string& path, size_t padding, const std::string& parquet_as) {
  Result<FileStream> stream = FileStream::Open(path, parquet_as);
  if (!stream) throw UnreadableFile(path, stream.error().what, stream.error().hint);
  // Reserves the usual size after decompression. The size in the file's last bytes is not used,
  // because it may be wrong.
  constexpr size_t kLeast = 4096;
  auto room = static_cast<size_t>(stream->file_size());
  if (stream->decoded()) room = std::clamp(4 * room, kLeast, LargeBytes::kMostInMemory);
  FileBytes bytes;
  while (true) {
    bytes.storage.Resize(room + padding);
    Result<size_t> count = stream->Read(bytes.storage.data() + bytes.size, room - bytes.size);
    if (!count) throw UnreadableFile(path, count.error().what, count.error().hint);
    bytes.size += *count;
    // Ignores bytes that are added to a plain file meanwhile.
    if (bytes.size < room || !stream->decoded()) break;
    room += std::min(room, size_t{64} << 20);
  }
  bytes.storage.Resize(bytes.size + padding);
  std::fill_n(bytes.storage.data() + bytes.size, padding, '\0');
  return bytes;
}

void RefuseUnmappable(const std::string& path, std::span<const std::byte> bytes) {
  std::array<char, 4> copy = {};
  if (bytes.size() < copy.size() || !CopyMapped(copy.data(), bytes.data(), copy.size())) return;
  const std::string_view begin(copy.data(), copy.size());
  if (path.ends_with(".parquet") && begin == "PAR1") {
    throw WrongDataFile(path, "\"" + path + "\" is a Parquet file, which cannot be mapped.",
                        "Set data.format to \"jsonl\", and data.text_column to the text's column.");
  }
  if (!path.ends_with(".gz") || !begin.starts_with("\x1f\x8b")) return;
  throw WrongDataFile(path,
                      "\"" + path +
                          "\" is compressed by gzip. Token files, and text that is read "
                          "by bytes, are mapped as they are.",
                      "Decompress it: gunzip " + path);
}

void RefuseOtherThanText(const std::string& path, std::string_view text) {
  if (IsUtf16(text)) throw Utf16File(path);
  if (text.substr(0, text.find('\n')).find('\0') == text.npos) return;
  throw UnreadableFile(path, "it is no text, its first line has a zero byte",
                       "Name a text file, or the data.format that the file has.", Code::kUsage);
}

std::string ShortenForMessage(std::string_view text) {
  constexpr size_t kMost = 100;
  std::string shown(text.substr(0, kMost));
  if (text.size() > kMost) {
    // Does not cut within a character.
    while (!shown.empty() && (shown.back() & 0xc0) == 0x80) shown.pop_back();
    if (!shown.empty() && (shown.back() & 0x80) != 0) shown.pop_back();
    shown += "...";
  }
  const auto moves = [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; };
  std::ranges::replace_if(shown, moves, '?');
  return shown;
}

std::string QuoteNames(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "\"" : ", \"") + ShortenForMessage(names[i]) + "\"";
  }
  if (names.size() > most) text += ", ... (" + std::to_string(names.size()) + " in all)";
  return text;
}

Failure WrongDataFile(const std::string& path, const std::string& found, const std::string& hint) {
  return Failure(Error{.code = Code::kUsage,
                       .title = "WRONG DATA FILE",
                       .where = path,
                       .what = found,
                       .hint = hint,
                       .page = "wrong-data-file"});
}

Failure UnknownLabel(const std::string& where,
                     const std::string& label,
                     const std::vector<std::string>& classes) {
  const auto nearest = FindNearest(label, classes);
  return Failure(
      Error{.code = Code::kUsage,
            .title = "UNKNOWN LABEL",
            .where = where,
            .what = "The row is labelled \"" + ShortenForMessage(label) + "\"; the classes are " +
                    QuoteNames(classes) + ".",
            .hint = (nearest ? "Did you mean \"" + *nearest + "\"? " : "") +
                    "They come from data.labels, the model's folder, or else the training data.",
            .page = "unknown-label"});
}

}  // namespace ddprun::trainer
