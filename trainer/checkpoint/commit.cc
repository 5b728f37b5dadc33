#include "trainer/checkpoint/commit.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "base/crc32c.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

namespace {

constexpr std::string_view kCommitBegin = "ddprun checkpoint ";
constexpr std::string_view kCommitEnd = "end ";
constexpr size_t kSumDigits = 8;

std::string SumText(uint32_t sum) {
  std::string text(kSumDigits, '0');
  for (size_t i = kSumDigits; i-- > 0; sum >>= 4) text[i] = "0123456789abcdef"[sum & 0xF];
  return text;
}

// Reads all of `text` as a number. Returns false if it is not one.
template <typename Number, typename... Base>
bool ReadNumber(std::string_view text, Number& number, Base... base) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && at == end;
}

// Removes the beginning of `text` up to `separator` or the end, and returns it.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const size_t length = text.find(separator);
  const std::string_view head = text.substr(0, length);
  text.remove_prefix(length == text.npos ? text.size() : length + 1);
  return head;
}

bool ReadLine(std::string_view line, Commit& commit) {
  const std::string_view key = TakeUntil(line, ' ');
  if (key == "step") return ReadNumber(line, commit.step) && commit.step >= 0;
  if (key == "attempt") return !(commit.attempt = line).empty();
  if (key == "score") return ReadNumber(line, commit.score.emplace());
  if (key != "file") return false;
  FileSum& file = commit.files.emplace_back();
  const std::string_view bytes = TakeUntil(line, ' ');
  const std::string_view sum = TakeUntil(line, ' ');
  file.name = line;
  return ReadNumber(bytes, file.bytes) && file.bytes >= 0 && ReadNumber(sum, file.crc32c, 16) &&
         !file.name.empty() && file.name.find('/') == std::string::npos;
}

}  // namespace

Error BrokenCheckpoint(const std::string& file, const std::string& what) {
  return Error{.code = Code::kDamaged,
               .title = "BROKEN CHECKPOINT",
               .where = file,
               .what = "\"" + file + "\" is not what was committed: " + what + ".",
               .hint =
                   "Go on from another checkpoint. Where the disk or a copy did this, copy the "
                   "folder again from where it is whole.",
               .page = "broken-checkpoint"};
}

Error UnreadableCheckpoint(const std::string& file, int error_number) {
  return Error{.title = "CHECKPOINT CANNOT BE READ",
               .where = file,
               .what = "\"" + file + "\" cannot be read: " + ErrnoText(error_number) +
                       ". Nothing was changed.",
               .hint =
                   "Start again once it can be read. To go on from an older checkpoint, move "
                   "this one away.",
               .page = "unreadable-checkpoint"};
}

bool IsMissingFile(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == EISDIR ||
         error_number == ENXIO;
}

std::string CommitText(const Commit& commit) {
  std::string text = std::string(kCommitBegin) + std::to_string(kCheckpointFormat) + "\n";
  text += "step " + std::to_string(commit.step) + "\n";
  text += "attempt " + commit.attempt + "\n";
  if (commit.score) {
    std::array<char, 32> digits = {};  // the shortest text that reads back as this number
    const auto end = std::to_chars(digits.begin(), digits.end(), *commit.score).ptr;
    text += "score " + std::string(digits.begin(), end) + "\n";
  }
  for (const FileSum& file : commit.files) {
    text += "file " + std::to_string(file.bytes) + " " + SumText(file.crc32c) + " " + file.name;
    text += "\n";
  }
  return text + std::string(kCommitEnd) + SumText(Crc32c(text)) + "\n";
}

Result<Commit> ParseCommit(std::string_view text, const std::string& path) {
  std::string_view rest = text;
  std::string_view first = TakeUntil(rest, '\n');
  int64_t format = 0;
  if (!first.starts_with(kCommitBegin) || !ReadNumber(first.substr(kCommitBegin.size()), format) ||
      format < 1) {
    return BrokenCheckpoint(path, "its first line is not that of a checkpoint");
  }
  if (format > kCheckpointFormat) {
    return Error{.code = Code::kNoCheckpoint,
                 .title = "CHECKPOINT OF A NEWER VERSION",
                 .where = path,
                 .what = "It has format " + std::to_string(format) +
                         "; this ddprun reads formats up to " + std::to_string(kCheckpointFormat) +
                         ".",
                 .hint = "Go on with the version of ddprun that saved it, or a newer one.",
                 .page = "newer-checkpoint"};
  }
  const size_t end = text.size() - std::min(text.size(), kCommitEnd.size() + kSumDigits + 1);
  const std::string_view before_end = text.substr(0, end);
  if (text.substr(end) != std::string(kCommitEnd) + SumText(Crc32c(before_end)) + "\n") {
    return BrokenCheckpoint(path, "its own checksum, in the last line, is wrong or missing");
  }
  Commit commit;
  rest = before_end.substr(first.size() + 1);
  while (!rest.empty()) {
    const std::string_view line = TakeUntil(rest, '\n');
    if (!ReadLine(line, commit)) {
      return BrokenCheckpoint(path, "its line \"" + std::string(line) + "\" cannot be parsed");
    }
  }
  return commit;
}

Result<Commit> ReadCommit(const std::string& folder) {
  const std::string path = folder + "/" + kCommitFile;
  const std::optional<std::string> text = ReadSmallFile(path);
  if (!text) {
    const int error_number = errno;
    if (!IsMissingFile(error_number)) return UnreadableCheckpoint(path, error_number);
    return Error{.code = Code::kNoCheckpoint,
                 .title = "NOT A CHECKPOINT",
                 .where = folder,
                 .what = "\"" + folder + "\" is no committed checkpoint: " + kCommitFile +
                         " cannot be read: " + ErrnoText(error_number) + ".",
                 .hint =
                     "Name a folder step-N of a run's checkpoints. One without that file was "
                     "never finished.",
                 .page = "not-a-checkpoint"};
  }
  return ParseCommit(*text, path);
}

std::optional<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(block.data(), static_cast<size_t>(got));
  }
}

}  // namespace ddprun::trainer
