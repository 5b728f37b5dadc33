// The errors of one config, collected so that a user sees them all at once.
// One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// What a message says; `page` is the anchor in docs/errors.md.
struct Diagnostic {
  std::string title;
  std::string page;
  std::string found;          // one sentence that ends in ':' when a place is shown below it
  std::string expected = {};  // shown below the place; may be empty
  std::string hint = {};      // what to do; may be empty
};

// A diagnostic with the source line and carets.
Error ErrorAt(const Span& span, const Diagnostic& diagnostic);
// One without a place of its own; `where` names the file.
Error ErrorIn(const std::string& where, const Diagnostic& diagnostic);

// `lines`, of which empty ones are dropped, joined by newlines.
std::string JoinLines(const std::vector<std::string>& lines);

class Problems {
 public:
  // More than this in one screen are not read anyway.
  static constexpr size_t kShown = 5;

  void Add(Error error);
  // The error is made only if it will be shown: a hostile file may have a hundred thousand.
  void Add(const std::function<Error()>& make);
  bool empty() const { return errors_.empty(); }
  // The first error, with the others in Error::more. REQUIRES: !empty().
  Error Take() &&;

 private:
  std::vector<Error> errors_;
  size_t hidden_ = 0;
};

}  // namespace ddprun::trainer
