// Passing a worker's last words on to whoever has started ddprun, as torch elastic does.
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

// What `error_file`, the text of a worker's error file, becomes for the parent: its message gets
// an errorCode (negative for signals), since a killed worker cannot have known its own. Any other
// text stays as it is: the parent may know what to make of it.
std::string ForParent(const std::string& error_file, const ProcessExit& exit);

// Copies the file at `from`, if there is one, over the one at `to`.
Status PassErrorFileOn(const std::string& from, const ProcessExit& exit, const std::string& to);

}  // namespace ddprun::launcher
