#include "launcher/nccl/nccl_dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <filesystem>
#include <map>
#include <utility>

#include "base/env.h"
#include "base/pickle_machine.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

// PyTorch keeps 2,000 collectives unless the user asks for more, with about 700 bytes for each.
constexpr size_t kMaxBytes = size_t{32} << 20;
constexpr size_t kMaxValues = 2'000'000;  // 2,000 collectives have about 150,000
// A hostile dump may repeat a value more often than it has bytes.
constexpr size_t kMaxCalls = 100'000;
constexpr size_t kMaxGroups = 10'000;
constexpr size_t kLookedAtItems = 64;
constexpr size_t kShownTensors = 2;
constexpr size_t kShownFrames = 2;
constexpr size_t kMaxText = 200;

// Returns at most `limit` items of a list or tuple.
std::vector<const PickleValue*> Items(const PickleValue& list, size_t limit) {
  if (!list.holds_items() || list.kind == PickleValue::Kind::kDict) return {};
  return {list.items.begin(),
          list.items.begin() + static_cast<ptrdiff_t>(std::min(list.items.size(), limit))};
}

std::string Text(const PickleValue& value) {
  return value.kind == PickleValue::Kind::kText ? MakePrintable(value.text.substr(0, kMaxText))
                                                : "";
}

// Parses "[0, 1, 5]".
std::vector<int> Ranks(std::string_view text) {
  std::vector<int> ranks;
  for (const char* next = text.data(); next != text.data() + text.size();) {
    int rank = 0;
    const auto [end, error] = std::from_chars(next, text.data() + text.size(), rank);
    if (error == std::errc() && rank >= 0) ranks.push_back(rank);
    next = error == std::errc() ? end : next + 1;
  }
  std::ranges::sort(ranks);
  return ranks;
}

// Returns the innermost lines of the stack that are not PyTorch's own.
std::string Caller(const PickleValue& frames) {
  std::string text;
  size_t shown = 0;
  for (const PickleValue* frame : Items(frames, kLookedAtItems)) {
    const std::string_view file = (*frame)["filename"].text;
    if (file.empty() || file.find("-packages/torch/") != file.npos) continue;
    if (shown++ == kShownFrames) break;
    // The end of a long path says more.
    const std::string_view end = file.substr(file.size() - std::min(file.size(), kMaxText));
    text += (text.empty() ? "" : ", from ") + Text((*frame)["name"]) + " at " + MakePrintable(end) +
            ":" + std::to_string((*frame)["line"].integer);
  }
  return text;
}

void SetInput(const PickleValue& entry, NcclCall& call) {
  const auto types = Items(entry["input_dtypes"], kLookedAtItems);
  const auto tensors = Items(entry["input_sizes"], kLookedAtItems);
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint64_t elements = 1;  // may wrap around in a hostile dump
    std::string shape;
    for (const PickleValue* size : Items(*tensors[i], kLookedAtItems)) {
      elements *= static_cast<uint64_t>(size->integer);
      shape += (shape.empty() ? "" : ", ") + std::to_string(size->integer);
    }
    call.elements = static_cast<int64_t>(static_cast<uint64_t>(call.elements) + elements);
    if (i >= kShownTensors) continue;
    call.input += (i == 0 ? "[" : " and [") + shape + "]";
    if (i < types.size()) call.input += " of " + Text(*types[i]);
  }
  if (tensors.size() > kShownTensors) {
    call.input += " and " + std::to_string(tensors.size() - kShownTensors) + " more";
  }
}

NcclCall ParseCall(const PickleValue& entry) {
  const auto group = Items(entry["process_group"], 2);
  NcclCall call{.group = group.empty() ? "" : Text(*group[0])};
  call.is_message = entry["is_p2p"].integer != 0;
  call.number = entry[call.is_message ? "p2p_seq_id" : "collective_seq_id"].integer;
  const std::string name = Text(entry["profiling_name"]);  // "nccl:all_reduce"
  call.operation = name.substr(name.find(':') + 1);        // npos + 1 is 0
  call.is_complete = entry["state"].text == "completed";
  call.caller = Caller(entry["frames"]);
  SetInput(entry, call);
  return call;
}

// Returns "" if the file cannot be read.
std::string ReadFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string bytes(std::min(static_cast<size_t>(status.st_size), kMaxBytes + 1), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

NcclDump DumpOf(const PickleValue& root, int rank) {
  if (root["pg_config"].kind != PickleValue::Kind::kDict ||
      root["entries"].kind != PickleValue::Kind::kList) {
    throw BadPickle{"it lacks pg_config or entries"};
  }
  NcclDump dump{.rank = rank};
  const std::vector<PickleValue*>& groups = root["pg_config"].items;
  for (size_t i = 1; i < std::min(groups.size(), 2 * kMaxGroups); i += 2) {
    const PickleValue& group = *groups[i];
    const std::string description = Text(group["desc"]);
    dump.groups.push_back({.name = Text(group["name"]),
                           .description = description == "undefined" ? "" : description,
                           .ranks = Ranks(group["ranks"].text)});
  }
  const std::vector<PickleValue*>& entries = root["entries"].items;
  for (size_t i = entries.size() - std::min(entries.size(), kMaxCalls); i < entries.size(); ++i) {
    dump.calls.push_back(ParseCall(*entries[i]));
  }
  return dump;
}

}  // namespace

Result<NcclDump> ParseNcclDump(std::string_view bytes, int rank) {
  if (bytes.size() > kMaxBytes) return Error{.what = "it is too long"};
  try {
    PickleMachine machine(bytes, kMaxValues);
    return DumpOf(machine.Run(), rank);
  } catch (const BadPickle& bad) {
    return Error{.what = bad.what};
  }
}

std::string NcclDumpPrefix(const std::string& folder) {
  return folder + "/nccl_trace_rank_";
}

std::string NcclPipePrefix(const std::string& folder) {
  return folder + "/nccl_rank_";
}

NcclDumps ReadNcclDumps(const std::string& folder) {
  std::map<int, std::string> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string path = entry.path().string();
    if (!path.starts_with(NcclDumpPrefix(folder))) continue;
    const auto rank = ParseInt(path.substr(NcclDumpPrefix(folder).size()));
    if (rank && *rank >= 0 && *rank <= INT_MAX) paths[static_cast<int>(*rank)] = path;
  }
  NcclDumps result;
  for (const auto& [rank, path] : paths) {
    if (Result<NcclDump> dump = ParseNcclDump(ReadFile(path), rank)) {
      result.dumps.push_back(*std::move(dump));
    } else {
      result.unread.push_back(path + " is no whole dump: " + dump.error().what);
    }
  }
  return result;
}

std::vector<int> AskForNcclDumps(const std::string& folder, const std::vector<int>& ranks) {
  std::vector<int> asked;
  for (const int rank : ranks) {
    const std::string path = NcclPipePrefix(folder) + std::to_string(rank) + ".pipe";
    // A pipe that nobody reads, as that of an earlier attempt, cannot be opened.
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd.valid() && ::write(fd.get(), "1", 1) == 1) asked.push_back(rank);
  }
  return asked;
}

}  // namespace ddprun::launcher
