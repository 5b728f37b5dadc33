// Pure: the lines of a stream that contain one of some words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

class LineFilter {
 public:
  LineFilter(std::vector<std::string> needles, std::string label)
      : needles_(std::move(needles)), label_(std::move(label)) {}

  // The lines ended by these bytes that contain a needle, each with the label in front and '\n'
  // behind. '\r' and "\r\n" end a line too, as in torchrun's filtered logs.
  std::string Feed(std::string_view bytes);
  // The same for the unfinished last line.
  std::string Finish();

  // A longer line is looked at in pieces.
  static constexpr size_t kMaxLineBytes = 1 << 20;

 private:
  void EndLine(std::string& matching);

  std::vector<std::string> needles_;
  std::string label_;
  std::string line_;
};

}  // namespace ddprun::launcher
