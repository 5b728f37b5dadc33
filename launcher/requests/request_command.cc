#include "launcher/requests/request_command.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/run_requests.h"
#include "base/unique_fd.h"
#include "launcher/requests/job_folder.h"

namespace ddprun::launcher {

namespace {

constexpr const char* kHelp =
    R"(ddprun save JOB   a checkpoint of a running run after its current step
ddprun stop JOB   a checkpoint, and then its end with exit status 0, so that
                  nothing restarts it; ddprun --resume RUN goes on later

JOB is the folder of a run (runs/NAME), or the number of a SLURM job (17, 17_3)
whose runs are in the folder runs where it was submitted. The command makes the
file `save` or `stop` in the run's folder: who may write there may ask. Rank 0
looks once a second, and its log says what it does.
)";

struct Request {
  const char* file;
  const char* answer;
};
constexpr Request kSave{kSaveRequest, " saves a checkpoint after its current step"};
constexpr Request kStop{kStopRequest,
                        " saves a checkpoint after its current step, and ends with exit status 0"};

Error CannotAsk(const std::string& folder, int error_number) {
  struct stat info {};
  const passwd* const owner =
      ::stat(folder.c_str(), &info) == 0 ? ::getpwuid(info.st_uid) : nullptr;
  const std::string name = owner != nullptr ? owner->pw_name : "Its owner";
  return {.title = "MAY NOT ASK THIS RUN",
          .where = folder,
          .what = "Making a file in it: " + ErrnoText(error_number) + ".",
          .hint = name + " may ask, and may let others: chmod g+w " + folder + ".",
          .page = "may-not-ask"};
}

Result<int> Ask(const Request& request,
                const std::vector<std::string>& args,
                const Environment& env) {
  const std::string job = args.empty() ? "" : args.front();
  if (job == "--help" || job == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (args.size() != 1) {
    return Error{.code = Code::kUsage,
                 .title = "BAD VALUE",
                 .where = std::string("ddprun ") + request.file,
                 .what = "Expected one JOB: a run folder, or the number of a SLURM job.",
                 .hint = std::string("See ddprun ") + request.file + " --help.",
                 .page = "bad-value"};
  }
  DDPRUN_ASSIGN(const std::string folder, FolderOfJob(job, env));
  const std::string path = folder + "/" + request.file;
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.valid() && errno != EEXIST) return CannotAsk(folder, errno);
  std::printf("%s%s%s\n", folder.c_str(), request.answer, file.valid() ? "" : ", as asked before");
  return 0;
}

}  // namespace

Result<int> RunSave(const std::vector<std::string>& args, const Environment& env) {
  return Ask(kSave, args, env);
}

Result<int> RunStop(const std::vector<std::string>& args, const Environment& env) {
  return Ask(kStop, args, env);
}

}  // namespace ddprun::launcher
