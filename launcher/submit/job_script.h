// The batch file that `ddprun submit` writes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/submit/submit_words.h"

namespace ddprun::launcher {

// Returns the job's name: --job-name, else TARGET's file name without its suffix,
// or "ddprun".
std::string JobName(const SubmitWords& words);

// Returns the text of the file. `program` is ddprun; `trainer` says whether TARGET is a config,
// whose workers save at SIGUSR1; `args` are the words behind `ddprun submit`.
std::string JobScript(const SubmitWords& words,
                      const std::string& program,
                      bool trainer,
                      const std::vector<std::string>& args);

struct WrittenScript {
  std::string path;
  bool is_new = false;  // false: a file with this text was there
};

// Writes runs/slurm/NAME.sbatch, or NAME-2 ... if that file has another text.
Result<WrittenScript> WriteScript(const std::string& job_name, const std::string& text);
// Removes a new file, and its folders if they are empty.
void WithdrawScript(const WrittenScript& script);

}  // namespace ddprun::launcher
