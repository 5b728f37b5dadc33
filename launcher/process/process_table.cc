#include "launcher/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "base/env.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

std::string ReadAll(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd.valid()) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

bool HoldsPipe(pid_t pid, const std::set<uint64_t>& pipes) {
  return std::ranges::any_of(DescriptorInodes(pid, "pipe"),
                             [&](uint64_t inode) { return pipes.contains(inode); });
}

}  // namespace

std::optional<ProcessEntry> ReadProcess(pid_t pid) {
  // "pid (name) state ppid pgrp session ..."; the 22nd is the start time. The name may be any text.
  const std::string text = ReadAll("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  char state = 0;
  int parent = 0;
  int session = 0;
  unsigned long long start_time = 0;
  const char* format =
      " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
  const char* rest = text.c_str() + name_end + 1;
  if (std::sscanf(rest, format, &state, &parent, &session, &start_time) != 4) return std::nullopt;
  return ProcessEntry{.pid = pid,
                      .parent = parent,
                      .session = session,
                      .start_time = start_time,
                      .ended = state == 'Z' || state == 'X',
                      .busy = state == 'R' || state == 'D'};
}

bool CanListProcesses() {
  return ReadProcess(::getpid()).has_value();
}

std::vector<ProcessEntry> ListProcesses() {
  std::vector<ProcessEntry> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::optional<int64_t> pid = ParseInt(entry->d_name);
    if (!pid) continue;
    if (const auto process = ReadProcess(static_cast<pid_t>(*pid))) processes.push_back(*process);
  }
  return processes;
}

std::vector<ProcessEntry> ListChildren() {
  std::vector<ProcessEntry> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/task"), ::closedir);
  bool listed = false;
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    if (!ParseInt(entry->d_name)) continue;
    const std::string path = "/proc/self/task/" + std::string(entry->d_name) + "/children";
    if (::access(path.c_str(), R_OK) != 0) continue;
    listed = true;
    std::istringstream pids(ReadAll(path));
    for (pid_t pid = 0; pids >> pid;) {
      if (const auto process = ReadProcess(pid)) children.push_back(*process);
    }
  }
  if (listed) return children;
  // For kernels without CONFIG_PROC_CHILDREN.
  for (const ProcessEntry& process : ListProcesses()) {
    if (process.parent == ::getpid()) children.push_back(process);
  }
  return children;
}

std::vector<uint64_t> DescriptorInodes(pid_t pid, std::string_view kind) {
  std::vector<uint64_t> inodes;
  const std::string before = std::string(kind) + ":[";
  const std::string path = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  while (folder != nullptr) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    char target[64] = {};
    if (::readlinkat(::dirfd(folder.get()), entry->d_name, target, sizeof target - 1) <= 0)
      continue;
    if (!std::string_view(target).starts_with(before)) continue;
    inodes.push_back(std::strtoull(target + before.size(), nullptr, 10));
  }
  return inodes;
}

bool IsMarked(const ProcessEntry& process, const JobMarks& marks, uint64_t job_start) {
  const std::string environment = ReadAll("/proc/" + std::to_string(process.pid) + "/environ");
  if (CarriesJobId(environment, marks.job_id)) return true;
  return process.start_time >= job_start && HoldsPipe(process.pid, marks.pipes);
}

void DropReused(std::span<const ProcessEntry> processes, std::map<pid_t, uint64_t>& sessions) {
  for (const ProcessEntry& process : processes) {
    const auto session = sessions.find(process.pid);
    if (session != sessions.end() && session->second != process.start_time) sessions.erase(session);
  }
}

bool CarriesJobId(std::string_view environment_block, std::string_view job_id) {
  if (job_id.empty()) return false;
  const std::string wanted = "DDPRUN_JOB_ID=" + std::string(job_id);
  size_t begin = 0;
  while (begin < environment_block.size()) {
    const size_t end = std::min(environment_block.find('\0', begin), environment_block.size());
    const std::string_view entry = environment_block.substr(begin, end - begin);
    if (entry.starts_with(wanted)) {
      return entry.size() == wanted.size() || entry[wanted.size()] == '/';
    }
    begin = end + 1;
  }
  return false;
}

std::vector<pid_t> SelectJobProcesses(std::span<const ProcessEntry> processes,
                                      const std::map<pid_t, uint64_t>& sessions,
                                      pid_t self,
                                      pid_t own_session) {
  std::set<pid_t> members;
  bool grown = true;
  while (grown) {
    grown = false;
    for (const ProcessEntry& process : processes) {
      if (process.pid == self || process.session == own_session) continue;
      const bool belongs =
          process.marked || sessions.contains(process.session) || members.contains(process.parent);
      if (belongs && members.insert(process.pid).second) grown = true;
    }
  }
  std::vector<pid_t> living;
  for (const ProcessEntry& process : processes) {
    if (!process.ended && members.contains(process.pid)) living.push_back(process.pid);
  }
  return living;
}

}  // namespace ddprun::launcher
