// Cuts a stream into parts that may be shown, labels lines and filters them. No system calls.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

class LineBuffer {
 public:
  // Takes bytes and returns those that may be shown now: up to the last '\n' or '\r' (progress bars
  // end in '\r'), or all if the line is longer than kMaxPartialBytes. Changes no byte.
  std::string Feed(std::string_view bytes);
  // Returns the rest, for a prompt or an unfinished last line.
  std::string TakePartial();
  bool has_partial() const { return !partial_.empty(); }

  // Other workers' lines may cut a longer line.
  static constexpr size_t kMaxPartialBytes = 16 << 20;

 private:
  std::string partial_;
};

class LineLabel {
 public:
  // With an empty label, Put() returns the bytes unchanged.
  explicit LineLabel(std::string label) : label_(std::move(label)) {}

  // Returns the bytes with the label where a line begins, and where a progress bar begins again
  // ('\r' and then text). "\r\n" is one end of a line. Calls may cut the stream anywhere.
  std::string Put(std::string_view bytes);
  // Puts the label before the next text, because another stream's text comes in between.
  void BeginAnew() { place_ = Place::kLineStart; }

 private:
  enum class Place { kLineStart, kWithin, kAfterReturn };

  std::string label_;
  Place place_ = Place::kLineStart;
};

class LineFilter {
 public:
  LineFilter(std::vector<std::string> needles, std::string label)
      : needles_(std::move(needles)), label_(std::move(label)) {}

  // Returns the lines that end in these bytes and contain a needle: label, line, '\n'. '\r' and
  // "\r\n" end a line, too, as in torchrun's filtered logs.
  std::string Feed(std::string_view bytes);
  // Returns the unfinished last line if it contains a needle, in the form that Feed() returns.
  std::string Finish();

  // A longer line is filtered in pieces.
  static constexpr size_t kMaxLineBytes = 1 << 20;

 private:
  void EndLine(std::string& matching);

  std::vector<std::string> needles_;
  std::string label_;
  std::string line_;
};

}  // namespace ddprun::launcher
