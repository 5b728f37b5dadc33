#include "trainer/data/token_dataset.h"

#include "base/text.h"
#include "trainer/data/data_files.h"
#include "trainer/text/file_stream.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);
constexpr int32_t kNarrowMagic = 20240520;
constexpr int32_t kWideMagic = 20240801;

struct Layout {
  size_t begin = 0;
  size_t width = 2;
};

Layout LayoutOf(const std::string& path, std::span<const std::byte> bytes) {
  int32_t header[3] = {};
  const bool may_have_header = bytes.size() >= kHeaderBytes;
  if (may_have_header && !CopyMapped(header, bytes.data(), sizeof(header))) {
    throw UnreadableFile(path, "it has become shorter while it was opened");
  }
  const bool narrow = header[0] == kNarrowMagic;
  if (!may_have_header || (!narrow && header[0] != kWideMagic)) {
    if (bytes.size() % 2 == 0) return {};
    throw WrongDataFile(path,
                        "\"" + path + "\" has an odd number of bytes (" +
                            std::to_string(bytes.size()) +
                            ") and no header of llm.c: it is no "
                            "list of 16-bit ids.",
                        "ddp-trainer tokenize makes token files from text.");
  }
  const int32_t version = narrow ? 1 : 7;
  const Layout layout{.begin = kHeaderBytes, .width = narrow ? 2U : 4U};
  const size_t tokens = (bytes.size() - kHeaderBytes) / layout.width;
  if (header[1] != version) {
    throw WrongDataFile(path,
                        "The header of \"" + path + "\" has version " + std::to_string(header[1]) +
                            "; version " + std::to_string(version) + " is read here.",
                        "ddp-trainer tokenize makes token files from text.");
  }
  if (header[2] < 0 || static_cast<size_t>(header[2]) != tokens ||
      (bytes.size() - kHeaderBytes) % layout.width != 0) {
    throw WrongDataFile(path,
                        "The header of \"" + path + "\" announces " + std::to_string(header[2]) +
                            " tokens, and " + std::to_string(bytes.size() - kHeaderBytes) +
                            " bytes follow, room for " + std::to_string(tokens) + ".",
                        "Copy the file again: it is cut off or damaged.");
  }
  return layout;
}

}  // namespace

TokenDataset::TokenDataset(const TokenDatasetOptions& options)
    : files_(options.files),
      vocab_size_(options.vocab_size),
      notes_(options.notes),
      blocks_(options.sequence_length, options.vocab_size) {
  for (const std::string& path : files_) {
    Result<MappedFile> mapped = MappedFile::Open(path);
    if (!mapped) throw UnreadableFile(path, mapped.error().what);
    RefuseUnmappable(path, mapped->bytes());
    const Layout layout = options.bytes_per_token > 0
                              ? Layout{.width = static_cast<size_t>(options.bytes_per_token)}
                              : LayoutOf(path, mapped->bytes());
    blocks_.Add(path, *std::move(mapped), layout.begin, layout.width);
  }
  if (blocks_.tokens() <= options.sequence_length) {
    throw WrongDataFile(files_.front(),
                        (files_.size() == 1 ? "The token file has " : "The token files have ") +
                            CountText(blocks_.tokens(), "token") + "; one sample needs " +
                            std::to_string(options.sequence_length + 1) +
                            " (data.max_seq_length + 1).",
                        "Add text, or make data.max_seq_length smaller.");
  }
}

}  // namespace ddprun::trainer
