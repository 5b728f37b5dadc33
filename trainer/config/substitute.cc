#include <optional>
#include <vector>

#include "base/text.h"
#include "trainer/config/assign_value.h"
#include "trainer/config/diagnostic.h"

namespace ddprun::trainer {

namespace {

Span FindInside(const Span& span, const std::string& needle) {
  const size_t begin = span.source->text.find(needle, span.begin);
  if (begin == std::string::npos || begin + needle.size() > span.end) return span;
  return {span.source, begin, begin + needle.size()};
}

Error UnknownVariable(const std::string& name, const Span& span, const Environment& environment) {
  std::vector<std::string> names;
  for (const std::string& entry : environment.Entries()) {
    names.push_back(entry.substr(0, entry.find('=')));
  }
  const std::optional<std::string> nearest = FindNearest(name, names);
  return ErrorAt(FindInside(span, "${" + name + "}"),
                 {.title = "UNKNOWN VARIABLE",
                  .page = "unknown-variable",
                  .found = "The environment has no variable " + Printable(name, 60) + ":",
                  .hint = nearest ? "Did you mean ${" + *nearest + "}?"
                                  : "Export it before the start; write $${ for a plain ${."});
}

}  // namespace

Result<std::string> Substitute(const std::string& text,
                               const Span& span,
                               const Environment& environment) {
  std::string result;
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t dollar = text.find("${", offset);
    if (dollar == std::string::npos) break;
    if (dollar > offset && text[dollar - 1] == '$') {
      result.append(text, offset, dollar - 1 - offset);
      result += "${";
      offset = dollar + 2;
      continue;
    }
    result.append(text, offset, dollar - offset);
    const size_t close = text.find('}', dollar);
    if (close == std::string::npos) {
      return ErrorAt(FindInside(span, "${"), {.title = "UNKNOWN VARIABLE",
                                              .page = "unknown-variable",
                                              .found = "This ${ has no closing }:",
                                              .hint = "Write $${ for a plain ${."});
    }
    const std::string name = text.substr(dollar + 2, close - dollar - 2);
    const std::optional<std::string> value = environment.Get(name);
    if (!value) return UnknownVariable(name, span, environment);
    result += *value;
    offset = close + 1;
  }
  return result.append(text, offset);
}

}  // namespace ddprun::trainer
