#include "trainer/config/diagnostic.h"

#include <utility>

#include "base/text.h"

namespace ddprun::trainer {

namespace {

Error MakeError(const std::string& where, const Diagnostic& diagnostic, const std::string& place) {
  return Error{.code = Code::kUsage,
               .title = diagnostic.title,
               .where = where,
               .what = JoinLines({diagnostic.found, place, diagnostic.expected}),
               .hint = diagnostic.hint,
               .page = diagnostic.page};
}

}  // namespace

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (!text.empty()) text += "\n";
    text += line;
  }
  return text;
}

Error ErrorAt(const Span& span, const Diagnostic& diagnostic) {
  return MakeError(Where(span), diagnostic, Snippet(span));
}

Error ErrorIn(const std::string& where, const Diagnostic& diagnostic) {
  return MakeError(where, diagnostic, "");
}

void Problems::Add(Error error) {
  Add([&] { return std::move(error); });
}

void Problems::Add(const std::function<Error()>& make) {
  if (errors_.size() < kShown) {
    errors_.push_back(make());
  } else {
    ++hidden_;
  }
}

Error Problems::Take() && {
  if (hidden_ > 0) {
    errors_.back().hint = JoinLines(
        {errors_.back().hint, "(" + CountText(static_cast<int64_t>(hidden_), "more error") +
                                  " not shown: correct these first.)"});
  }
  Error first = std::move(errors_.front());
  errors_.erase(errors_.begin());
  first.more = std::move(errors_);
  first.hidden = hidden_;
  return first;
}

}  // namespace ddprun::trainer
