#include "launcher/report/peer_worker.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "launcher/report/text_block.h"

namespace ddprun::launcher {

using nlohmann::json;

namespace {

// Enough for a Python traceback's end.
constexpr size_t kMaxLines = 20;
constexpr size_t kMaxPeerLineBytes = 300;

json Tail(const std::vector<std::string>& lines) {
  json tail = json::array();
  for (size_t i = lines.size() - std::min(lines.size(), kMaxLines); i < lines.size(); ++i) {
    tail.push_back(Visible(lines[i], kMaxPeerLineBytes));
  }
  return tail;
}

json Describe(const PeerWorker& worker) {
  const WorkerRecord& record = worker.record;
  json object = {{"host", worker.host}, {"time", worker.time},
                 {"rank", record.rank}, {"local_rank", record.local_rank},
                 {"pid", record.pid},   {"last_lines", Tail(record.last_lines)}};
  if (record.exit) {
    if (const auto* signaled = std::get_if<Signaled>(&*record.exit)) {
      object["signal"] = signaled->signal;
      object["core"] = signaled->dumped_core;
    } else {
      object["code"] = std::get<Exited>(*record.exit).code;
    }
  }
  if (record.error) {
    const std::string& words =
        record.error->callstack.empty() ? record.error->message : record.error->callstack;
    object["error"] = Tail(SplitLines(words));
    object["error_file"] = record.error_file;
    object["error_file_removed"] = record.error_file_removed;
  }
  if (!record.last_log.empty()) object["last_log"] = Tail(record.last_log);
  if (!record.nccl.empty()) object["nccl"] = Tail(record.nccl);
  if (!record.left.empty()) object["left"] = record.left;
  if (record.out_of_memory) object["out_of_memory"] = record.out_of_memory->what;
  if (!record.core_dump.empty()) object["core_dump"] = record.core_dump;
  if (!record.stderr_file.empty()) object["stderr_file"] = record.stderr_file;
  return object;
}

template <typename T>
T Get(const json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? MakePrintable(found->get<T>()) : otherwise;
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->get<T>() : otherwise;
  } else {
    return found->is_number_integer() ? found->get<T>() : otherwise;
  }
}

std::vector<std::string> Lines(const json& object, const char* key) {
  std::vector<std::string> lines;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return lines;
  for (const json& line : *found) {
    if (!line.is_string() || lines.size() >= kMaxLines) continue;
    lines.push_back(MakePrintable(line.get<std::string>()));
  }
  return lines;
}

}  // namespace

std::shared_ptr<const json> ToJson(const PeerWorker& worker) {
  json object = Describe(worker);
  // Lines may be longer as JSON, where a control character takes six bytes.
  for (const char* part : {"last_log", "last_lines", "error", "nccl"}) {
    const auto replace = json::error_handler_t::replace;
    if (object.dump(-1, ' ', false, replace).size() <= kMaxPeerWorkerBytes) break;
    object.erase(part);
  }
  return std::make_shared<const json>(std::move(object));
}

std::optional<PeerWorker> WorkerOf(const rendezvous::RoundEnd& end) {
  if (end.worker == nullptr) return std::nullopt;
  const json& object = *end.worker;
  PeerWorker worker{.host = Get<std::string>(object, "host", "?"),
                    .time = Get<std::string>(object, "time", "?")};
  WorkerRecord& record = worker.record;
  record.rank = Get(object, "rank", -1);
  record.local_rank = Get(object, "local_rank", -1);
  record.pid = Get(object, "pid", 0);
  if (const int signal = Get(object, "signal", 0); signal > 0) {
    record.exit = Signaled{signal, Get(object, "core", false)};
  } else if (object.contains("code")) {
    record.exit = Exited{Get(object, "code", 1)};
  }
  record.left = Get<std::string>(object, "left", "");
  record.last_lines = Lines(object, "last_lines");
  record.last_log = Lines(object, "last_log");
  record.nccl = Lines(object, "nccl");
  if (object.contains("error")) {
    std::string message;
    for (const std::string& line : Lines(object, "error")) message += line + "\n";
    record.error = WorkerError{message, "", 0};
    record.error_file = Get<std::string>(object, "error_file", "");
    record.error_file_removed = Get(object, "error_file_removed", false);
  }
  if (object.contains("out_of_memory")) {
    record.out_of_memory = OutOfMemory{true, Get<std::string>(object, "out_of_memory", "?")};
  }
  record.core_dump = Get<std::string>(object, "core_dump", "");
  record.stderr_file = Get<std::string>(object, "stderr_file", "");
  return worker;
}

}  // namespace ddprun::launcher
