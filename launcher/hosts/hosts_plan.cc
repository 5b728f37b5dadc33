#include "launcher/hosts/hosts_plan.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>
#include <variant>

#include "base/read_file.h"
#include "base/shell_text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/process/job.h"
#include "rendezvous/net/address.h"

namespace ddprun::launcher {

namespace {

Error Contradict(std::string what, std::string hint) {
  return Error{.code = Code::kUsage,
               .title = "FLAGS CONTRADICT",
               .where = "--hostfile",
               .what = std::move(what),
               .hint = std::move(hint),
               .page = "flags-contradict"};
}

// Returns whether the host is this machine. An address of 127/8 counts only if an interface has it.
bool IsThisHost(const std::string& address) {
  const std::string own = rendezvous::HostName();
  if (address == "localhost" || address == own || address == own.substr(0, own.find('.'))) {
    return true;
  }
  for (const auto& found : rendezvous::ResolveLocally(address)) {
    if (std::ranges::count(rendezvous::ReadOwnAddresses(), found,
                           &rendezvous::OwnAddress::address) > 0) {
      return true;
    }
  }
  return false;
}

// Returns the first host's name as the others know it.
std::string MeetingHost(const std::vector<Host>& hosts) {
  const std::string first = hosts.front().address();
  const auto is_remote = [](const Host& host) {
    return !rendezvous::NamesLoopback(host.address());
  };
  const bool misleads = rendezvous::NamesLoopback(first) && std::ranges::any_of(hosts, is_remote);
  return misleads ? rendezvous::HostName() : first;
}

std::vector<std::string> CommandFor(const Host& host, const std::vector<std::string>& ssh) {
  const std::string program = ProgramFolder() + "/ddprun";
  if (IsThisHost(host.address())) return {program, "on_host"};
  std::vector<std::string> command = ssh;
  command.push_back(host.name);
  command.push_back("exec " + QuoteForShell(program) + " on_host");
  return command;
}

// Checks what can be checked here, before anything is started.
Status Check(const HostsPlan& plan, const Environment& env) {
  const Options& options = plan.options;
  const bool completed = options.in_cluster || plan.hosts.size() == 1;
  if (!completed || options.given.contains("node_rank")) {
    return Contradict("--hostfile says which nodes there are, and where they meet.",
                      "Leave --standalone, --node_rank and --nnodes out; --nnodes=MIN:MAX alone is "
                      "an elastic job.");
  }
  if (ParseInt(env.GetOr("SLURM_STEP_NUM_TASKS", "1")).value_or(1) > 1) {
    return Contradict(
        "srun has started several ddprun, and each would start all hosts of the file.",
        "Leave --hostfile out, or srun.");
  }
  for (const Host& host : plan.hosts) {
    if (!IsThisHost(host.address())) continue;
    DDPRUN_ASSIGN(const Target target, ResolveTarget(options, env, ProgramFolder()));
  }
  return {};
}

}  // namespace

Result<HostsPlan> MakeHostsPlan(const std::string& file,
                                const std::string& ssh_command,
                                const std::vector<std::string>& args,
                                const Environment& env) {
  HostsPlan plan;
  DDPRUN_ASSIGN(const std::optional<std::string> text, ReadFile(file));
  if (!text) return BadValue("--hostfile", "There is no file " + file + ".", "Check the path.");
  DDPRUN_ASSIGN(plan.hosts, ParseHostFile(*text, file));
  const std::string run_id = "hosts." + MakeUuid();
  const std::string meeting = MeetingHost(plan.hosts);
  std::error_code ignored;
  const std::string folder = std::filesystem::current_path(ignored);
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    Environment place = env;
    place.Unset("DDPRUN_JOB_ID");
    place.Set(kHostPlaceVariable, std::to_string(i) + " " + std::to_string(plan.hosts.size()) +
                                      " " + meeting + " " + run_id);
    if (i == 0) {
      DDPRUN_ASSIGN(auto parsed, ParseOptions(args, place, {}, CompleteOptions));
      plan.options = std::get<Options>(std::move(parsed));
      plan.options.notes.clear();  // the agents say them
      DDPRUN_TRY(Check(plan, env));
    }
    HostOrders orders{.folder = folder, .args = args, .env = SharedVariables(place)};
    const int slots = plan.hosts[i].slots;
    if (slots > 0 && !plan.options.given.contains("nproc_per_node")) {
      orders.args.insert(orders.args.begin(), "--nproc_per_node=" + std::to_string(slots));
    }
    plan.orders.push_back(std::move(orders));
  }
  std::istringstream words(ssh_command);
  std::vector<std::string> ssh;
  for (std::string word; words >> word;) ssh.push_back(word);
  for (const Host& host : plan.hosts) plan.commands.push_back(CommandFor(host, ssh));
  const bool all_here =
      std::ranges::all_of(plan.hosts, [](const Host& host) { return IsThisHost(host.address()); });
  if (all_here) return plan;
  DDPRUN_ASSIGN(const std::string program, FindProgram(ssh.front(), env));
  for (std::vector<std::string>& command : plan.commands) {
    if (command.front() == ssh.front()) command.front() = program;
  }
  return plan;
}

}  // namespace ddprun::launcher
