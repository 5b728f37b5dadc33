// Opens the data sets that the section "data" of a config describes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/job/job.h"

namespace ddprun::trainer {

// Opens one part of a job and returns whether it succeeded. OpenJob()'s lets a Failure pass.
using Attempt = std::function<bool(const std::function<void()>& part)>;

// Fills job.train, job.validation and the members that belong to them.
void OpenData(Job& job, const Attempt& attempt);

// Opens files of the format of the training data, with the encoding and the classes of the training
// data. Without targets, tables, texts and folders of images need not have any, and a row that
// cannot be read is an error. Throws Failure. REQUIRES: job.train.
enum class Targets { kRead, kNone };
std::unique_ptr<Dataset> OpenFurtherData(const Job& job,
                                         const std::vector<std::string>& files,
                                         Targets targets = Targets::kRead);

// Returns JSON that says how the training data became inputs and classes.
nlohmann::ordered_json DescribeData(const Job& job);

// Returns a data set without samples that serves OpenFurtherData() as the training data does.
// `description` is DescribeData()'s.
std::unique_ptr<Dataset> OpenDescribedData(const Config& config, const nlohmann::json& description);

}  // namespace ddprun::trainer
