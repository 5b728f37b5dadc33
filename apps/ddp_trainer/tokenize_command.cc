#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "base/cpus.h"
#include "base/failure.h"
#include "trainer/text/tokenize_files.h"
#include "trainer/text/tokenizer.h"
#include "trainer/worker/input_files.h"

namespace ddprun::trainer {

namespace {

struct TokenizeFlags {
  std::vector<std::string> files;
  std::string tokenizer;
  std::string out;
  std::string format = "llm.c";
  std::string input = "auto";
  std::string json_key = "text";
  std::string separator;
  bool no_separator = false;
  std::string on_bad_row = "error";
  int threads = CoreCount();
};

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool IsRows(const std::string& input, const std::string& file) {
  if (input != "auto") return input == "jsonl";
  std::filesystem::path path(file);
  if (path.extension() == ".gz") path = path.stem();
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".ndjson";
}

int32_t SeparatorId(const Tokenizer& tokenizer, const std::string& name) {
  if (!name.empty() && tokenizer.Find(name) >= 0) return tokenizer.Find(name);
  if (name.empty() && tokenizer.special().eos >= 0) return tokenizer.special().eos;
  throw Failure(
      Error{.code = Code::kUsage,
            .title = "NO SEPARATOR",
            .where = "--separator",
            .what = name.empty() ? "The tokenizer has no token that ends a document (eos_token)."
                                 : "The tokenizer has no token \"" + name + "\".",
            .hint = "Name one of its tokens: --separator='[SEP]'; or leave it out: --no-separator.",
            .page = "no-separator"});
}

int64_t TotalBytes(const std::vector<std::string>& files) {
  int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) total += static_cast<int64_t>(size);
  }
  return total;
}

// Rewrites one line on a terminal; elsewhere prints a line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(int64_t total) : total_(std::max<int64_t>(total, 1)) {}

  void Show(const TokenizeProgress& progress) {
    const double now = SecondsSince(start_);
    if (now - shown_ < (terminal_ ? 0.2 : 10.0)) return;
    shown_ = now;
    const auto megabytes = static_cast<double>(progress.bytes) / 1e6;
    std::fprintf(stderr, "%s%5.1f %%  %.0f MB, %" PRId64 " tokens, %.1f MB/s%s",
                 terminal_ ? "\r" : "", 100 * megabytes * 1e6 / static_cast<double>(total_),
                 megabytes, progress.tokens, megabytes / now, terminal_ ? "\x1b[K" : "\n");
  }

  void End() const {
    if (terminal_ && shown_ > 0) std::fputs("\r\x1b[K", stderr);
  }

 private:
  const int64_t total_;
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

void PrintSummary(const std::string& out, const TokenizeProgress& result, double seconds) {
  const auto megabytes = static_cast<double>(result.bytes) / 1e6;
  std::printf("%s: %" PRId64 " tokens of %d bytes from %" PRId64
              " documents, %.1f MB in %.2f s (%.1f MB/s)\n",
              out.c_str(), result.tokens, result.bytes_per_token, result.documents, megabytes,
              seconds, megabytes / seconds);
  if (result.bad_rows > 0) std::printf("%" PRId64 " bad rows were passed over\n", result.bad_rows);
}

int Tokenize(const TokenizeFlags& flags) {
  RefuseInputAsOutput(flags.files, flags.out);
  const auto tokenizer = LoadTokenizer(flags.tokenizer);
  TokenizeOptions options;
  options.files = flags.files;
  for (const std::string& file : options.files) {
    options.is_rows.push_back(IsRows(flags.input, file));
  }
  options.json_key = flags.json_key;
  if (!flags.no_separator) options.separator = SeparatorId(*tokenizer, flags.separator);
  options.skip_bad_rows = flags.on_bad_row == "skip";
  options.output = flags.out;
  options.format = flags.format == "nanogpt" ? TokenFileFormat::kNanoGpt : TokenFileFormat::kLlmC;
  options.threads = flags.threads;
  ProgressLine line(TotalBytes(options.files));
  const Clock::time_point start = Clock::now();
  const TokenizeProgress result = TokenizeFiles(
      *tokenizer, options, [&line](const TokenizeProgress& progress) { line.Show(progress); });
  line.End();
  PrintSummary(flags.out, result, SecondsSince(start));
  return 0;
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Make a token file (.bin) of text files");
  command->add_option("files", flags->files, "Text files, or JSON lines (.jsonl)")->required();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "Hugging Face folder with the tokenizer's files")
      ->required();
  command->add_option("--out", flags->out, "The file to write")->required();
  command->add_option("--format", flags->format, "llm.c (with a header) or nanogpt (16 bits)")
      ->check(CLI::IsMember({"llm.c", "nanogpt"}))
      ->capture_default_str();
  command->add_option("--input", flags->input, "jsonl, text (a file is a document), or auto")
      ->check(CLI::IsMember({"auto", "jsonl", "text"}))
      ->capture_default_str();
  command->add_option("--json-key", flags->json_key, "What of a JSON line is the document")
      ->capture_default_str();
  CLI::Option* separator = command->add_option(
      "--separator", flags->separator, "Token after each document (default: the tokenizer's eos)");
  command->add_flag("--no-separator", flags->no_separator, "Write none")->excludes(separator);
  command->add_option("--on-bad-row", flags->on_bad_row, "error or skip (and count)")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Default: one for each CPU")
      ->check(CLI::Range(1, 1024));
  command->callback(
      [&chosen, flags] { chosen = [flags](const Environment&) { return Tokenize(*flags); }; });
}

}  // namespace ddprun::trainer
