// An observer that keeps the lines for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/report/observer.h"

namespace ddprun::trainer {

class NotedLines final : public Observer {
 public:
  void OnNote(std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

}  // namespace ddprun::trainer
