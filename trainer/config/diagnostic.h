// The errors of one config, collected so that users see them together. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainer/config/source.h"

namespace ddprun::trainer {

// The parts of a message; `page` is the anchor in docs/errors.md.
struct Diagnostic {
  std::string title;
  std::string page;
  std::string found;          // one sentence; it ends in ':' if the place is shown below it
  std::string expected = {};  // shown below the place; may be empty
  std::string hint = {};      // what to do; may be empty
};

// Returns an error with the source line and carets.
Error ErrorAt(const Span& span, const Diagnostic& diagnostic);
// Returns an error without a place; `where` names the file.
Error ErrorIn(const std::string& where, const Diagnostic& diagnostic);

// Joins `lines` by newlines, without empty ones.
std::string JoinLines(const std::vector<std::string>& lines);

class Problems {
 public:
  // Users do not read more errors at once.
  static constexpr size_t kShown = 5;

  void Add(Error error);
  // Calls `make` only if its error will be shown, because a hostile file may have 100,000 errors.
  void Add(const std::function<Error()>& make);
  bool empty() const { return errors_.empty(); }
  // Returns the first error, with the others in Error::more. REQUIRES: !empty().
  Error Take() &&;

 private:
  std::vector<Error> errors_;
  size_t hidden_ = 0;
};

}  // namespace ddprun::trainer
