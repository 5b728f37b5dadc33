#include "launcher/sweep/sweep_plan.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "launcher/sweep/sweep_range.h"

namespace ddprun::launcher {

namespace {

constexpr double kMaxRuns = 10'000;
// File systems allow names of 255 bytes, and a number may follow.
constexpr size_t kMaxName = 200;

struct Axis {
  std::string key;
  std::string label;  // for names of folders
  std::vector<std::string> values;
  std::vector<std::optional<SweepRange>> ranges = {};  // of the values that are ranges

  bool HasRange() const {
    return std::ranges::any_of(ranges, [](const auto& range) { return range.has_value(); });
  }
};

Error BadSweep(const std::string& text, std::string what) {
  return Error{.code = Code::kUsage,
               .title = "BAD SWEEP",
               .where = "--sweep=" + text,
               .what = std::move(what),
               .hint = "Example: --sweep optimizer.learning_rate=1e-4,3e-4",
               .page = "bad-sweep"};
}

std::vector<std::string> SplitValues(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && (c == '[' || c == '{' || c == '(')) ++depth;
    if (!quoted && (c == ']' || c == '}' || c == ')')) --depth;
    if (c == ',' && !quoted && depth == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

// The label is the last part of the key, or the whole key if two keys have the same last part.
void GiveLabels(std::vector<Axis>& axes) {
  std::multiset<std::string> leaves;
  const auto leaf = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  for (const Axis& axis : axes) leaves.insert(leaf(axis.key));
  for (Axis& axis : axes) {
    axis.label = leaves.count(leaf(axis.key)) > 1 ? axis.key : leaf(axis.key);
  }
}

std::string FolderName(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (std::string_view(" []{}\"").find(c) != std::string_view::npos) continue;
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._-+=,").find(c) != std::string_view::npos;
    name += plain ? c : '_';
  }
  return name.substr(0, kMaxName);
}

// Numbers equal names, because different values may give the same folder's name.
void MakeNamesDiffer(std::vector<SweepRun>& runs) {
  std::set<std::string> taken;
  for (SweepRun& run : runs) {
    const std::string name = run.name;
    for (int number = 2; !taken.insert(run.name).second; ++number) {
      run.name = name + "." + std::to_string(number);
    }
  }
}

// Returns the texts as keys with values.
Result<std::vector<Axis>> AxesOf(const std::vector<std::string>& texts) {
  std::vector<Axis> axes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    Axis axis{.key = text.substr(0, equals), .label = "", .values = {}};
    if (equals != std::string::npos) axis.values = SplitValues(text.substr(equals + 1));
    for (const std::string& value : axis.values) {
      if (value.empty()) return BadSweep(text, axis.key + " has an empty value.");
      const std::optional<SweepRange>& range = axis.ranges.emplace_back(SweepRange::In(value));
      if (range && !range->problem().empty()) {
        return BadSweep(text, value + " " + range->problem() + ".");
      }
    }
    const bool again = std::any_of(axes.begin(), axes.end(),
                                   [&axis](const Axis& other) { return other.key == axis.key; });
    if (again) return BadSweep(text, axis.key + " is swept twice; give all its values in one.");
    axes.push_back(std::move(axis));
  }
  GiveLabels(axes);
  return axes;
}

void AddValue(const Axis& axis, const std::string& value, SweepRun& run) {
  run.values.emplace_back(axis.key, value);
  run.name += (run.name.empty() ? "" : ",") + axis.label + "=" + value;
}

std::vector<SweepRun> AllCombinations(const std::vector<Axis>& axes) {
  std::vector<SweepRun> runs(1);
  for (const Axis& axis : axes) {
    std::vector<SweepRun> longer;
    for (const SweepRun& run : runs) {
      for (const std::string& value : axis.values) {
        longer.push_back(run);
        AddValue(axis, value, longer.back());
      }
    }
    runs = std::move(longer);
  }
  return runs;
}

std::vector<SweepRun> DrawnRuns(const std::vector<Axis>& axes, const SweepChoice& choice) {
  SweepDraws draws(choice.seed);
  std::vector<SweepRun> runs(static_cast<size_t>(choice.runs));
  for (SweepRun& run : runs) {
    for (const Axis& axis : axes) {
      const auto place =
          static_cast<size_t>(draws.Next() * static_cast<double>(axis.values.size()));
      const std::optional<SweepRange>& range = axis.ranges[place];
      const double share = draws.Next();  // also for a plain value: as many draws for each run
      AddValue(axis, range ? range->At(share) : axis.values[place], run);
    }
  }
  return runs;
}

}  // namespace

std::vector<std::string> SweepRun::Overrides() const {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : values) overrides.push_back(key + "=" + value);
  return overrides;
}

Result<std::vector<SweepRun>> PlanSweep(const std::vector<std::string>& texts,
                                        const SweepChoice& choice) {
  DDPRUN_ASSIGN(const std::vector<Axis> axes, AxesOf(texts));
  const auto ranged = std::ranges::find_if(axes, &Axis::HasRange);
  const bool draws = ranged != axes.end();
  if (draws && choice.runs == 0) {
    return BadSweep(texts[static_cast<size_t>(ranged - axes.begin())],
                    "Runs draw from this range. How many runs? Add --sweep_runs=20.");
  }
  if (!draws && choice.runs > 0) {
    return BadSweep(texts.front(),
                    "--sweep_runs is the number of runs that draw from ranges, and there is no "
                    "range such as loguniform(1e-5,1e-3).");
  }
  double count = 1;
  for (const Axis& axis : axes) count *= static_cast<double>(axis.values.size());
  if (!draws && count > kMaxRuns) return BadSweep(texts.back(), "More than 10000 runs come of it.");
  std::vector<SweepRun> runs = draws ? DrawnRuns(axes, choice) : AllCombinations(axes);
  for (SweepRun& run : runs) run.name = FolderName(run.name);
  MakeNamesDiffer(runs);
  return runs;
}

}  // namespace ddprun::launcher
