#include "launcher/hosts/hosts_plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <utility>
#include <variant>

#include "base/read_file.h"
#include "base/shell_text.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/hosts/hosts.h"
#include "launcher/process/job.h"
#include "rendezvous/net/address.h"
#include "rendezvous/secure/token.h"

namespace ddprun::launcher {

namespace {

struct Host {
  std::string name;  // as ssh takes it: HOST or USER@HOST
  int slots = 0;     // workers; 0 means that the file does not say it

  std::string address() const { return name.substr(name.find('@') + 1); }
};

constexpr int kMaxSlots = 1 << 16;

// Returns whether neither a shell nor ssh can take the word for anything but a host.
bool IsHostName(std::string_view word) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._:@%-";
  return word.front() != '-' && word.back() != '@' && std::ranges::count(word, '@') <= 1 &&
         ToAsciiLower(word).find_first_not_of(kAllowed) == std::string::npos;
}

// Reads a word behind the host. Returns false for other words than slots=N.
bool ReadWord(const std::string& word, int& slots) {
  const size_t equals = std::min(word.find('='), word.size() - 1);
  const auto number = ParseInt(std::string_view(word).substr(equals + 1));
  if (!number || *number < 1 || *number > kMaxSlots) return false;
  const std::string key = word.substr(0, equals);
  if (key == "max_slots" || key == "max-slots") return true;  // Open MPI's limit for -np
  slots = static_cast<int>(*number);
  return key == "slots";
}

// Reads lines "HOST [slots=N]", with # before comments, as Open MPI and DeepSpeed do. A host in
// several lines gets the slots of all of them, and a line without slots then counts for one.
Result<std::vector<Host>> ParseHostFile(std::string_view text, const std::string& where) {
  std::vector<Host> hosts;
  size_t number = 0;
  const auto bad = [&where, &number](const std::string& what) {
    return Error{.code = Code::kUsage,
                 .title = "BAD HOST FILE",
                 .where = where + (number > 0 ? ":" + std::to_string(number) : ""),
                 .what = what,
                 .hint = "A line is HOST or HOST slots=N, where N is the number of workers there.",
                 .page = "host-file"};
  };
  for (const std::string& line : SplitLines(text)) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    if (!IsHostName(host.name)) {
      return bad("\"" + MakePrintable(host.name) + "\" is no name of a host.");
    }
    for (std::string word; words >> word;) {
      if (ReadWord(word, host.slots)) continue;
      return bad("\"" + MakePrintable(word) + "\"; expected slots=N with N of 1 to " +
                 std::to_string(kMaxSlots) + ".");
    }
    const auto same = std::ranges::find(hosts, host.name, &Host::name);
    if (same == hosts.end())
      hosts.push_back(host);
    else
      same->slots = std::max(same->slots, 1) + std::max(host.slots, 1);
  }
  number = 0;
  if (hosts.empty()) return bad("The file has no host.");
  return hosts;
}

// Returns whether the host is this machine. An address of 127/8 counts only if an interface has it.
bool IsThisHost(const std::string& address) {
  const std::string own = rendezvous::HostName();
  if (address == "localhost" || address == own || own.starts_with(address + ".")) return true;
  const auto found = rendezvous::ResolveLocally(address);
  return std::ranges::any_of(rendezvous::ReadOwnAddresses(), [&found](const auto& each) {
    return std::ranges::count(found, each.address) > 0;
  });
}

// Returns the first host's name as the others know it.
std::string MeetingHost(const std::vector<Host>& hosts) {
  const auto is_loopback = [](const Host& each) {
    return rendezvous::NamesLoopback(each.address());
  };
  if (!is_loopback(hosts[0]) || std::ranges::all_of(hosts, is_loopback)) return hosts[0].address();
  return rendezvous::HostName();
}

// Returns whether a variable belongs to this host, this login or this terminal.
bool IsOwn(const std::string& entry) {
  constexpr std::string_view kNames =
      " HOME USER LOGNAME SHELL MAIL HOSTNAME HOST OLDPWD SHLVL _ TERM COLUMNS LINES DISPLAY "
      "WAYLAND_DISPLAY XAUTHORITY KRB5CCNAME STY ";
  constexpr std::array kBeginnings = {"TMUX", "SSH_", "XDG_", "DBUS_"};
  return kNames.find(" " + entry.substr(0, entry.find('=')) + " ") != std::string_view::npos ||
         std::ranges::any_of(kBeginnings, [&entry](auto text) { return entry.starts_with(text); });
}

std::string WriteOrders(const std::vector<std::string>& args, const Environment& env) {
  std::string orders;
  const auto add = [&orders](char kind, const std::string& text) {
    (orders += kind).append(text).push_back('\0');
  };
  for (const std::string& arg : args) add(kArgumentOrder, arg);
  for (const std::string& entry : env.Entries()) {
    if (!IsOwn(entry)) add(kVariableOrder, entry);
  }
  orders.push_back('\0');
  return orders;
}

// Checks what can be checked here, before anything is started.
Status Check(const Options& options, size_t hosts, const Environment& env) {
  if ((!options.in_cluster && hosts > 1) || options.given.contains("node_rank")) {
    return Contradict("--hostfile says which nodes there are, and where they meet.",
                      "Leave --standalone, --node_rank and --nnodes=1 out; --nnodes=MIN:MAX is an "
                      "elastic job.");
  }
  if (ParseInt(env.GetOr("SLURM_STEP_NUM_TASKS", "1")).value_or(1) <= 1) return {};
  return Contradict(
      "srun has started several ddprun, and each would start all hosts of --hostfile.",
      "Leave --hostfile out, or srun.");
}

// Writes the hosts' slots into the options of the job, for --dry_run. If they differ, all ranks
// count as those of one node.
void CountRanks(const std::vector<Host>& hosts, Options& options) {
  std::vector<int> slots;
  for (const Host& host : hosts) slots.push_back(std::max(host.slots, 1));
  const bool alike = std::ranges::count(slots, slots[0]) == std::ssize(slots);
  options.nproc_per_node =
      std::to_string(alike ? slots[0] : std::accumulate(slots.begin(), slots.end(), 0));
  if (!alike) options.rdzv.rules.max_nodes = 1;
}

Result<std::vector<std::string>> CommandFor(const Host& host,
                                            const std::string& ssh_command,
                                            const Options& options,
                                            const Environment& env) {
  const std::string program = ProgramFolder() + "/ddprun";
  if (IsThisHost(host.address())) {
    DDPRUN_ASSIGN(const Target target, ResolveTarget(options, env, ProgramFolder()));
    return std::vector<std::string>{program, "on_host"};
  }
  std::vector<std::string> command;
  std::istringstream words(ssh_command);
  for (std::string word; words >> word;) command.push_back(word);
  DDPRUN_ASSIGN(command.front(), FindProgram(command.front(), env));
  command.push_back(host.name);
  command.push_back("exec " + QuoteForShell(program) + " on_host");
  return command;
}

}  // namespace

Result<HostsPlan> MakeHostsPlan(const std::string& file,
                                const std::string& ssh_command,
                                const std::vector<std::string>& args,
                                const Environment& env) {
  const Result<std::optional<std::string>> read = ReadFile(file);
  if (!read) {
    return BadValue("--hostfile", read.error().what,
                    "Name a file that can be read, with lines HOST or HOST slots=N.");
  }
  const std::optional<std::string>& text = *read;
  if (!text) return BadValue("--hostfile", "There is no file " + file + ".", "Check the path.");
  DDPRUN_ASSIGN(const std::vector<Host> hosts, ParseHostFile(*text, file));
  const std::string others =
      std::to_string(hosts.size()) + " " + MeetingHost(hosts) + " hosts." + MakeUuid();
  Environment place = env;
  place.Unset("DDPRUN_JOB_ID");
  using rendezvous::kTokenVariable;
  if (place.GetOr(kTokenVariable, place.GetOr(rendezvous::kTokenFileVariable, "")).empty()) {
    place.Set(kTokenVariable, rendezvous::NewTokenText());
  }
  std::error_code ignored;
  place.Set("PWD", std::filesystem::current_path(ignored).string());
  HostsPlan plan;
  for (const Host& host : hosts) {
    place.Set(kHostPlaceVariable, std::to_string(plan.starts.size()) + " " + others);
    if (plan.starts.empty()) {
      DDPRUN_ASSIGN(auto parsed, ParseOptions(args, place, {}, CompleteOptions));
      plan.options = std::get<Options>(std::move(parsed));
      DDPRUN_TRY(Check(plan.options, hosts.size(), env));
      const rendezvous::RendezvousOptions& rdzv = plan.options.rdzv;
      plan.meets_at_first =
          rdzv.is_host == true || (rdzv.hosts.empty() && rdzv.endpoint.host == host.address());
    }
    std::vector<std::string> words = args;
    if (host.slots > 0 && !plan.options.given.contains("nproc_per_node")) {
      words.insert(words.begin(), "--nproc_per_node=" + std::to_string(host.slots));
    }
    DDPRUN_ASSIGN(auto command, CommandFor(host, ssh_command, plan.options, env));
    plan.starts.push_back({host.name, std::move(command), WriteOrders(words, place)});
  }
  if (!plan.options.given.contains("nproc_per_node")) CountRanks(hosts, plan.options);
  return plan;
}

}  // namespace ddprun::launcher
