// Pure: puts a label in front of each line of a stream.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::launcher {

class LineLabel {
 public:
  // An empty label changes nothing.
  explicit LineLabel(std::string label) : label_(std::move(label)) {}

  // The bytes with the label where a line begins and where a progress bar begins again ('\r' and
  // then text); "\r\n" is one end of a line. The stream may be cut anywhere.
  std::string Put(std::string_view bytes);
  // Somebody else's text stands between what was put and what will be: the label comes again.
  void BeginAnew() { place_ = Place::kLineStart; }

 private:
  enum class Place { kLineStart, kWithin, kAfterReturn };

  std::string label_;
  Place place_ = Place::kLineStart;
};

}  // namespace ddprun::launcher
