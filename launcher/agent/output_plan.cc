#include "launcher/agent/output_plan.h"

#include <array>
#include <cctype>
#include <map>

namespace ddprun::launcher {

namespace {

constexpr std::string_view kTorchrunPrefix = "[${role_name}${local_rank}]:";
// Colours of ranks' labels. Red is left to errors.
constexpr std::array<std::string_view, 6> kColors = {"36", "33", "32", "35", "34", "96"};

bool IsNamePart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Returns the identifier at the beginning of `text`; "" if there is none.
std::string_view NameAt(std::string_view text) {
  if (text.empty() || !IsNamePart(text[0]) || (text[0] >= '0' && text[0] <= '9')) return "";
  size_t end = 0;
  while (end < text.size() && IsNamePart(text[end])) ++end;
  return text.substr(0, end);
}

bool WantsLabel(const Options& options, const OutputSurroundings& here, bool is_terminal) {
  if (options.label != Label::kAuto) return options.label == Label::kAlways;
  // Output that is no terminal gets no labels, because scripts search for torchrun's lines.
  return is_terminal && here.membership.world_size > 1 && !here.is_trainer_config;
}

std::string RankLabel(const OutputSurroundings& here, int rank, bool color) {
  std::string label = "[" + std::to_string(rank) + "]";
  if (here.membership.nnodes > 1) label = "[" + here.host + ":" + std::to_string(rank) + "]";
  if (!color) return label + " ";
  const std::string_view code = kColors[static_cast<size_t>(rank) % kColors.size()];
  return "\x1b[" + std::string(code) + "m" + label + "\x1b[0m ";
}

struct StreamWishes {
  bool is_out;
  bool redirect;
  bool tee;
  bool is_terminal;
};

StreamPlan PlanStream(const Options& options,
                      const OutputSurroundings& here,
                      int local_rank,
                      const StreamWishes& wishes) {
  const bool files = !here.attempt_folder.empty();
  const std::string file = here.attempt_folder + "/" + std::to_string(local_rank) +
                           (wishes.is_out ? "/stdout.log" : "/stderr.log");
  const int rank = here.membership.base_rank + local_rank;
  StreamPlan plan;
  plan.shown =
      options.local_ranks_filter.empty() || options.local_ranks_filter.contains(local_rank);
  if (files && wishes.tee) {
    plan.file = file;
    plan.filtered = plan.shown;  // as torchrun does
    const std::string& prefix = here.prefix_template;
    plan.label =
        FillPrefix(prefix.empty() ? kTorchrunPrefix : prefix, options.rdzv.role, rank, local_rank);
    return plan;
  }
  if (files && wishes.redirect) {
    return {.route = Route::kFile, .file = file, .shown = false};
  }
  if (!plan.shown) return plan;
  const bool labelled = WantsLabel(options, here, wishes.is_terminal);
  if (labelled) plan.label = RankLabel(here, rank, here.color && wishes.is_terminal);
  // ddprun must read the output if it looks for hangs, because printing is a sign of life.
  const bool alone = here.local_world_size == 1 && !labelled && !options.hang_timeout;
  if (wishes.is_out && alone)
    plan.route = Route::kInherit;
  else if (wishes.is_terminal && (wishes.is_out || labelled))
    plan.route = Route::kTerminal;
  return plan;
}

}  // namespace

GroupOutputPlan PlanOutput(const Options& options, const OutputSurroundings& surroundings) {
  GroupOutputPlan plan;
  for (int rank = 0; rank < surroundings.local_world_size; ++rank) {
    const Streams redirect = options.redirects.Of(rank);
    const Streams tee = options.tee.Of(rank);
    plan.workers.push_back(
        {.out = PlanStream(options, surroundings, rank,
                           {true, redirect.out, tee.out, surroundings.out_is_terminal}),
         .err = PlanStream(options, surroundings, rank,
                           {false, redirect.err, tee.err, surroundings.err_is_terminal})});
  }
  const std::string& folder = surroundings.attempt_folder;
  if (!folder.empty() && !options.duplicate_stdout_filters.empty()) {
    plan.filtered_out = {folder + "/filtered_stdout.log", options.duplicate_stdout_filters};
  }
  if (!folder.empty() && !options.duplicate_stderr_filters.empty()) {
    plan.filtered_err = {folder + "/filtered_stderr.log", options.duplicate_stderr_filters};
  }
  return plan;
}

std::string FillPrefix(std::string_view prefix_template,
                       const std::string& role,
                       int rank,
                       int local_rank) {
  const std::map<std::string, std::string, std::less<>> values = {
      {"role_name", role},
      {"rank", std::to_string(rank)},
      {"local_rank", std::to_string(local_rank)}};
  std::string text;
  while (!prefix_template.empty()) {
    const size_t dollar = prefix_template.find('$');
    text += prefix_template.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    prefix_template.remove_prefix(dollar);
    const std::string_view rest = prefix_template.substr(1);
    const bool braced = rest.starts_with('{');
    const std::string_view name = NameAt(braced ? rest.substr(1) : rest);
    size_t length = 1 + name.size() + (braced ? 2 : 0);
    const bool closed = !braced || prefix_template.substr(0, length).ends_with('}');
    const auto value = values.find(name);
    if (closed && value != values.end()) {
      text += value->second;
    } else {
      length = rest.starts_with('$') ? 2 : 1;
      text += '$';
    }
    prefix_template.remove_prefix(length);
  }
  return text;
}

}  // namespace ddprun::launcher
