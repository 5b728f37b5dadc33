#include "trainer/text/tokenize_files.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/cpus.h"
#include "base/failure.h"
#include "trainer/text/document_reader.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

// The result of one piece.
struct Tokens {
  std::vector<int32_t> ids;
  int64_t documents = 0;
  int64_t bad_rows = 0;
};

// Returns ", only "title", "content"" with the first few keys.
std::string KeysOf(const json& row) {
  constexpr int kShown = 8;
  std::string text;
  int count = 0;
  for (const auto& [key, value] : row.items()) {
    if (count++ < kShown) text += (count == 1 ? ", only \"" : ", \"") + key.substr(0, 40) + "\"";
  }
  return text + (count > kShown ? ", ..." : "");
}

// Returns the kind of a value: "a number", "an object".
std::string KindOfJson(const json& value) {
  const std::string name = value.type_name();
  if (value.is_null()) return name;
  return (value.is_object() || value.is_array() ? "an " : "a ") + name;
}

// Reads the text of a row. Returns the reason if it has none; "" means success.
std::string ReadRow(std::string_view row, const std::string& key, std::string& text) {
  const json value = json::parse(row, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return "it is no JSON";
  if (!value.is_object()) return "it is no JSON object";
  const auto found = value.find(key);
  if (found == value.end()) return "it has no \"" + key + "\"" + KeysOf(value);
  if (!found->is_string()) {
    const bool is_chat = found->is_array() && !found->empty() && found->front().is_object();
    return "its \"" + key + "\" is no string but " +
           (is_chat ? "a list of objects. Conversations are for data.format \"chat\", not for this"
                    : KindOfJson(*found));
  }
  text = found->get<std::string>();
  return "";
}

class Pipeline {
 public:
  Pipeline(const Tokenizer& tokenizer,
           const TokenizeOptions& options,
           const std::function<void(const TokenizeProgress&)>& report)
      : tokenizer_(tokenizer),
        options_(options),
        report_(report),
        reader_({.files = options.files,
                 .is_rows = options.is_rows,
                 .cut_text = tokenizer.splits_at_lines()}),
        writer_(
            options.output_fd < 0
                ? TokenFileWriter(options.output, options.format, tokenizer.vocab_size())
                : TokenFileWriter(
                      options.output_fd, options.output, options.format, tokenizer.vocab_size())) {}

  TokenizeProgress Run() {
    RunOnThreads(options_.threads, [this] { Work(); });
    writer_.Finish();
    return progress_;
  }

 private:
  // Each thread takes the next piece, encodes it, and waits for its turn to write. The holder of
  // the earliest piece never waits, so there is no deadlock. Memory holds one piece per thread.
  void Work() {
    try {
      TextPiece piece;
      int64_t number = 0;
      while (Take(piece, number)) {
        const Tokens tokens = Encode(piece);
        if (!Write(tokens, number)) return;
      }
    } catch (...) {
      Stop();
      throw;
    }
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    turn_.notify_all();
  }

  bool Take(TextPiece& piece, int64_t& number) {
    const std::lock_guard lock(reading_);
    number = pieces_;
    if (!reader_.Next(piece)) return false;
    bytes_read_ = reader_.bytes_read();
    ++pieces_;
    return true;
  }

  bool Write(const Tokens& tokens, int64_t number) {
    {
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return stopped_ || written_ == number; });
      if (stopped_) return false;
      writer_.Append(tokens.ids);
      progress_ = {.bytes = bytes_read_,
                   .documents = progress_.documents + tokens.documents,
                   .tokens = writer_.tokens(),
                   .bad_rows = progress_.bad_rows + tokens.bad_rows,
                   .bytes_per_token = writer_.bytes_per_token()};
      report_(progress_);
      ++written_;
    }
    turn_.notify_all();
    return true;
  }

  Tokens Encode(const TextPiece& piece) const {
    Tokens tokens;
    if (piece.is_rows) {
      EncodeRows(piece, tokens);
      return tokens;
    }
    tokenizer_.Encode(piece.text, tokens.ids);
    if (piece.ends_document) EndDocument(tokens);
    return tokens;
  }

  void EncodeRows(const TextPiece& piece, Tokens& tokens) const {
    std::string text;
    for (const auto& [row, line] : RowsOf(piece)) {
      const std::string wrong = ReadRow(row, options_.json_key, text);
      if (wrong.empty()) {
        tokenizer_.Encode(text, tokens.ids);
        EndDocument(tokens);
      } else if (options_.skip_bad_rows) {
        ++tokens.bad_rows;
      } else {
        throw BadRow(piece.file, line, wrong);
      }
    }
  }

  void EndDocument(Tokens& tokens) const {
    ++tokens.documents;
    if (options_.separator >= 0) tokens.ids.push_back(options_.separator);
  }

  Failure BadRow(size_t file, int64_t line, const std::string& wrong) const {
    return Failure(Error{.code = Code::kUsage,
                         .title = "BAD ROW",
                         .where = options_.files[file] + ":" + std::to_string(line),
                         .what = "This row cannot be used: " + wrong +
                                 ". Each row is to be an object with the document in \"" +
                                 options_.json_key + "\".",
                         .hint = options_.bad_row_hint,
                         .page = "bad-row"});
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  const std::function<void(const TokenizeProgress&)>& report_;

  std::mutex reading_;  // held while a thread takes a piece
  DocumentReader reader_;
  int64_t pieces_ = 0;
  std::atomic<int64_t> bytes_read_{0};

  std::mutex mutex_;  // guards the members below
  std::condition_variable turn_;
  TokenFileWriter writer_;
  TokenizeProgress progress_;
  int64_t written_ = 0;
  bool stopped_ = false;
};

}  // namespace

TokenizeProgress TokenizeFiles(const Tokenizer& tokenizer,
                               const TokenizeOptions& options,
                               const std::function<void(const TokenizeProgress&)>& report) {
  return Pipeline(tokenizer, options, report).Run();
}

}  // namespace ddprun::trainer
