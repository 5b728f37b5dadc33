#include "trainer/text/clean_up.h"

#include <span>
#include <string_view>
#include <utility>

namespace ddprun::trainer {

namespace {

using Rule = std::pair<std::string_view, std::string_view>;

constexpr Rule kRules[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
constexpr size_t kDoNot = 7;

void Replace(std::span<const Rule> rules, std::string& text) {
  for (const auto& [from, to] : rules) {
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
}

}  // namespace

void CleanUpToken(std::string& token) {
  Replace(kRules, token);
}

void CleanUpText(std::string& text) {
  Replace(std::span(kRules).first(kDoNot), text);
  Replace(std::span(kRules).subspan(kDoNot + 1), text);
}

}  // namespace ddprun::trainer
