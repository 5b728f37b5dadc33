// Opens the data sets that the section "data" of a config describes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/job/job.h"

namespace ddprun::trainer {

// Opens one part of a job and returns whether it succeeded. OpenJob()'s lets a Failure pass.
using Attempt = std::function<bool(const std::function<void()>& part)>;

// Fills job.train, job.validation and the members that belong to them.
void OpenData(Job& job, const Attempt& attempt);

// Opens files of the format of the training data, with the encoding and the classes of the training
// data. Throws Failure. REQUIRES: job.train.
std::unique_ptr<Dataset> OpenFurtherData(const Job& job, const std::vector<std::string>& files);

}  // namespace ddprun::trainer
