// The descriptors 0 to 2 of this process.
#pragma once

namespace ddprun::launcher {

// Opens missing descriptors 0 to 2, so that no later file becomes standard output.
void OpenMissingStandardDescriptors();

}  // namespace ddprun::launcher
